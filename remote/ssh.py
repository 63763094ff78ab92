"""A real board over SSH. The only importer of fabric and paramiko.

One connection carries two channels, one for each on-board program; a request on them costs one round trip.
"""

from __future__ import annotations

import errno
import json
import logging
import re
import shlex
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread

import fabric
import fabric.exceptions
import paramiko
from paramiko import ssh_exception as wrong
from paramiko.hostkeys import HostKeyEntry, InvalidHostKey

from remote import bundle
from remote.access import Access
from remote.channel import ChannelTransport
from remote.errors import BoardError, EdgeperfError, HostError, LinkLost
from remote.hosts import Ssh
from remote.ssh_link import NotStarted, SshLink, started
from remote.start import Root, command, programs
from remote.types import Apply, Undo, Written

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # what it has to say is said by `mapped`

_NO_KEY = "No authentication methods available"  # paramiko words it so, as a plain SSHException
_START_S = 30.0
_END_S = 10.0
_CHECK = "check the address, that the board is on, and that `ssh` reaches it"
_NAME = "check it; a name is looked up with `edgeperf hosts list`, in ~/.ssh/config, then as an address"
_USER = "check the user; `ssh-copy-id` or `edgeperf hosts add` gives the board your key"

MEANING: tuple[tuple[type[BaseException], str, str], ...] = (
    (wrong.NoValidConnectionsError, "nothing answers there", _CHECK),
    (socket.gaierror, "the name is not known", _NAME),
    (socket.herror, "the name is not known", _NAME),
    (TimeoutError, "nothing answers in time", _CHECK),
    (ConnectionRefusedError, "it refuses connections", "is sshd running there, and is the port right?"),
    (ConnectionError, "the connection was cut", "try again"),
    (wrong.PasswordRequiredException, "the private key has a passphrase", "load it: ssh-add"),
    (wrong.BadAuthenticationType, "it does not take this kind of login", _USER),
    (wrong.PartialAuthentication, "it asks for a second kind of login", "allow your key alone on the board"),
    (wrong.UnableToAuthenticate, "it does not let this user in", _USER),
    (wrong.AuthenticationException, "it does not let this user in", _USER),
    (wrong.BadHostKeyException, "its host key is another than before", "see `edgeperf hosts check`"),
    (wrong.ChannelException, "it opens no session", "see MaxSessions in its sshd_config"),
    (wrong.IncompatiblePeer, "it speaks only algorithms that are not safe any more", "update its SSH server"),
    (wrong.ProxyCommandFailure, "the ProxyCommand failed", "try it by itself"),
    (wrong.CouldNotCanonicalize, "the name could not be completed", "see CanonicalizeHostname in your SSH config"),
    (wrong.ConfigParseError, "the SSH config cannot be read", "correct ~/.ssh/config"),
    (wrong.MessageOrderError, "the connection was tampered with", "do not trust this network"),
    (wrong.SSHException, "it does not speak SSH as expected", _CHECK),
    (fabric.exceptions.NothingToDo, "there is nothing to connect to", _CHECK),
    (fabric.exceptions.GroupException, "several hosts failed", _CHECK),
    (fabric.exceptions.InvalidV1Env, "the fabric settings are too old", "remove them"),
    (OSError, "it cannot be reached", _CHECK),
    (ValueError, "the SSH config holds a value that cannot be used", "correct ~/.ssh/config"),
)
"""What the exceptions of paramiko, fabric and sockets mean, and what to do; the first that fits counts."""

FOREIGN = (paramiko.SSHException, OSError, ValueError, EOFError)


def mapped(error: BaseException, host: str) -> HostError:
    """Returns what an exception of a foreign library means for the user. Its own words follow in brackets."""
    closed = isinstance(error, OSError) and error.errno == errno.EBADF  # on this side, as the other has ended it
    for kind, what, hint in MEANING:
        if isinstance(error, kind) and not closed:
            said = getattr(error, "strerror", None) or str(error)
            return HostError(f"{host}: {what} ({said})" if said else f"{host}: {what}", hint)
    return LinkLost(f"{host}: the connection ended", "try again")


class SshTransport(ChannelTransport):
    """Both programs over one connection, which ends with them."""

    def __init__(
        self, session: Session, agent: SshLink | Callable[[], SshLink], clockd: SshLink, access: Access, note: str
    ) -> None:
        super().__init__(agent, clockd, bundle.build_id(), pulse=access.pulse, progress=access.progress)
        self._session = session
        self._root_link = clockd
        self._leased = False
        self.password_used = session.password_used
        notes = [note] if note and not self.facts.root else []
        if session.host.serial not in ("", self.facts.serial):
            notes.append(
                f"another module than the one remembered: serial {self.facts.serial}, not {session.host.serial}"
            )
        self.journal = replace(self.journal, notes=(*notes, *self.journal.notes))

    def write(self, change: Apply | Undo) -> Written:
        written = super().write(change)
        self._leased = bool(written.lease) or (self._leased and not (isinstance(change, Undo) and change.lease))
        return written

    def close(self) -> None:
        if self._leased:
            self._take_leave()
        super().close()
        self._session.close()

    def _take_leave(self) -> None:
        """Has the board put back what is still held before the connection is gone."""
        with suppress(EdgeperfError):
            self._clockd.send("bye")
        self._root_link.wait_closed(_END_S)


def connect(host: Ssh, access: Access) -> SshTransport:
    """Connects, starts both programs, and returns the connection. Raises HostError."""
    Thread(target=programs, daemon=True).start()  # they are made while the network is waited for
    session = Session(host, access)
    place = ["--root", host.root] if host.root else []
    try:
        start_agent = partial(session.start, _words("agent", access) + place)
        with ThreadPoolExecutor(1) as pool:
            user = None if access.clocks_only else pool.submit(start_agent)
            clockd, note = session.start_as_root(_words("clockd", access) + place)
            agent = user.result() if user else start_agent
        return SshTransport(session, agent, clockd, access, note)
    except BaseException:
        session.close()
        raise


def _words(program: str, access: Access) -> list[str]:
    if access.resume:
        return ["relay", "--to", program]
    return [program, *access.pulse.options(), *(("--guard", "yes") if program == "clockd" else ())]


class Session:
    """An SSH connection to a board; logs in when made. Raises HostError."""

    def __init__(self, host: Ssh, access: Access) -> None:
        self.host = host
        self._access = access
        self._password = ""
        with _mapping(host.text):
            self._connection = self._login()

    @property
    def password_used(self) -> bool:
        """Says whether a password was needed to log in."""
        return bool(self._password)

    def start(self, words: Sequence[str], root: Root = "none", *, installed: bool = False) -> SshLink:
        """Starts a program on a channel of its own. With ``installed``, root's own copy of it where there is one."""
        with _mapping(self.host.text):
            channel = self._connection.create_session()
            channel.exec_command(command(words, root, installed=installed))
            return started(channel, self.host.text, self._sudo_password)

    def start_as_root(self, words: Sequence[str]) -> tuple[SshLink, str]:
        """Starts a program as root if possible, else as the user; then the second value says why."""
        try:
            return self.start(words, self._way(), installed=not self.host.root), ""
        except NotStarted as error:
            return self.start(words), f"not root: {error.said}"

    def order(self, word: str) -> None:
        """Has root on the board ``install`` or ``uninstall`` its own copy. Raises HostError and BoardError."""
        link = self.start([word], self._way())
        answer = json.loads(link.receive(None).partition(b"\n")[0])
        if answer["kind"] == "error":
            raise BoardError(f"{self.host.text}: {answer['what']}", answer["hint"])

    def _way(self) -> Root:
        can = self._access.sudo_password or self._password or self._access.ask
        return "password" if can else "silent"

    def close(self) -> None:
        """Ends the connection, and those that it leads through."""
        _disconnect(self._connection)

    def _sudo_password(self) -> str:
        if self._access.sudo_password or self._password:
            return self._access.sudo_password or self._password
        return (
            self._access.ask(f"sudo password on {self.host.text} (empty: without root): ") if self._access.ask else ""
        )

    def _login(self) -> fabric.Connection:
        """Logs in by key, or else by a password that the user is asked for once."""
        try:
            return self._connect()
        except paramiko.AuthenticationException:
            if self._access.ask is None:
                raise
            self._password = self._access.ask(f"password of {self.host.text} (or of your key): ")
            if not self._password:
                raise
        connection = self._connect()
        if connection.transport.auth_handler.auth_method == "publickey":
            self._password = ""  # it opened a key, which is nobody's business on the board
        return connection

    def _connect(self) -> fabric.Connection:
        # Neither fabric's own settings files nor its environment variables.
        config = fabric.Config(lazy=True, runtime_ssh_path=self._access.ssh_config)
        config.load_ssh_config()
        host = self.host
        connection = fabric.Connection(
            host.address,
            user=host.user or None,
            port=host.port or None,
            config=config,
            connect_kwargs={"password": self._password or None},
        )
        try:
            for hop in _hops(connection):
                self._prepare(hop)
            connection.open()
        except BaseException as error:
            _disconnect(connection)
            if isinstance(error, wrong.BadHostKeyException):
                raise _changed_key(next(h for h in _hops(connection) if h.host == error.hostname), error) from error
            if str(error) == _NO_KEY:
                raise paramiko.AuthenticationException("there is no key to offer") from error
            raise
        return connection

    def _prepare(self, hop: fabric.Connection) -> None:
        """Gives a connection its time limits and the host keys that it may meet."""
        limit_s = self._access.connect_s
        hop.connect_timeout = None  # a whole number there
        times = {"timeout": limit_s, "banner_timeout": limit_s, "auth_timeout": max(limit_s, _START_S)}
        hop.connect_kwargs = {**dict(hop.connect_kwargs), **times}
        hop.client.set_missing_host_key_policy(_Policy(hop, self._access, *_learn(hop)))
        if not hop.gateway:
            hop.connect_kwargs["sock"] = _socket(hop.host, hop.port, limit_s)


def _socket(host: str, port: int, timeout_s: float) -> socket.socket:
    """Returns a connected socket that sends at once: requests are small, and each one is waited for."""
    plain = socket.create_connection((host, port), timeout_s)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return plain


def _hops(connection: fabric.Connection) -> Iterator[fabric.Connection]:
    """Gives a connection and those that it leads through (ProxyJump)."""
    while isinstance(connection, fabric.Connection):
        yield connection
        connection = connection.gateway


def _disconnect(connection: fabric.Connection) -> None:
    for hop in _hops(connection):
        with suppress(*FOREIGN):
            hop.client.close()


@contextmanager
def _mapping(host: str) -> Iterator[None]:
    try:
        yield
    except EdgeperfError:
        raise
    except FOREIGN as error:
        raise mapped(error, host) from error


# Host keys


def _known_hosts(hop: fabric.Connection) -> list[str]:
    """Returns the files of known host keys as they are named, those of the SSH config or else the usual ones."""
    named = str(hop.ssh_config.get("userknownhostsfile", "~/.ssh/known_hosts")).split()
    return [*named, "/etc/ssh/ssh_known_hosts"]


def _learn(hop: fabric.Connection) -> tuple[set[str], bool]:
    """Has the client know the keys of its host, but those that are revoked, which are returned (in base 64).

    The second value says whether a certificate authority vouches for the host, which the library cannot check. Its own
    reader stops at a line that it does not understand, such as one that revokes a key.
    """
    name, met, known = _known_name(hop), _met_name(hop), hop.client.get_host_keys()
    files = [Path(file).expanduser() for file in _known_hosts(hop)]
    texts = (file.read_text("utf-8", "replace") for file in files if file.is_file())
    lines = [line.split() for text in texts for line in text.splitlines()]
    revoked = {words[3] for words in lines if words[:1] == ["@revoked"] and len(words) > 3}
    vouched = any(words[:1] == ["@cert-authority"] and len(words) > 3 and _means(words[1], name) for words in lines)
    for words in lines:
        if len(words) < 3 or words[2] in revoked or not _means(words[0], name):
            continue
        with suppress(InvalidHostKey, *FOREIGN):
            entry = HostKeyEntry.from_line(f"{name} {words[1]} {words[2]}")
            if entry is not None and entry.key.get_name() not in (known.lookup(met) or {}):
                known.add(met, entry.key.get_name(), entry.key)
    return revoked, vouched


def _means(hosts: str, name: str) -> bool:
    """Says whether hosts in a file of known hosts, perhaps hashed or with ``*``, ``?``, ``!``, are those of a name."""
    if hosts.startswith("|1|"):
        with suppress(ValueError):
            return bool(paramiko.HostKeys.hash_host(name, hosts) == hosts)
        return False
    patterns = [re.escape(word).replace(r"\*", ".*").replace(r"\?", ".") for word in hosts.split(",")]
    fits = [pattern for pattern in patterns if re.fullmatch(pattern.removeprefix("!"), name, re.IGNORECASE)]
    return bool(fits) and not any(pattern.startswith("!") for pattern in fits)


def _known_name(hop: fabric.Connection) -> str:
    """Returns the name under which files of known hosts have a host."""
    return str(hop.ssh_config.get("hostkeyalias") or _met_name(hop))


def _met_name(hop: fabric.Connection) -> str:
    """Returns the name under which the library looks for a host."""
    return str(hop.host) if hop.port == 22 else f"[{hop.host}]:{hop.port}"


_VOUCHED = "edgeperf cannot check a @cert-authority of your known_hosts: it needs the board's own key there\n"


class _Policy:
    """Refuses an unknown host key and says how to accept it, or remembers it where the user allowed that."""

    def __init__(self, hop: fabric.Connection, access: Access, revoked: set[str], vouched: bool) -> None:
        self._hop = hop
        self._access = access
        self._revoked = revoked
        self._vouched = vouched

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        """Raises HostError unless new keys are accepted."""
        if key.get_base64() in self._revoked:
            raise HostError(
                f"{self._hop.original_host}: its host key has been revoked: {key.get_name()} {key.fingerprint}",
                "do not log in there; see the line @revoked in your known_hosts",
            )
        told = f"{self._hop.original_host}: its host key is not known: {key.get_name()} {key.fingerprint}"
        confirm = self._access.confirm
        if not (self._access.accept_new_host_key or (confirm and confirm(f"{told}\nIs it the board's?"))):
            raise HostError(told, (_VOUCHED if self._vouched else "") + _accepting(self._hop, key))
        file = Path(_known_hosts(self._hop)[0]).expanduser()
        file.parent.mkdir(mode=0o700, exist_ok=True)
        with file.open("a", encoding="utf-8") as known:
            known.write(f"{_known_name(self._hop)} {key.get_name()} {key.get_base64()}\n")


def _accepting(hop: fabric.Connection, key: paramiko.PKey) -> str:
    kind = key.get_name().removeprefix("ssh-").partition("-")[0]
    name, file = _known_name(hop), _known_hosts(hop)[0]
    renamed = "" if name == _met_name(hop) else " | sed " + shlex.quote(f"s,^[^ ]*,{name},")
    return (
        "compare it with the one that the board shows: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub\n"
        f"to accept it: ssh-keyscan -p {hop.port} -t {kind} {shlex.quote(hop.host)}{renamed} >> {file}\n"
        "or let edgeperf do that: --accept-new-host-key"
    )


def _changed_key(hop: fabric.Connection, error: wrong.BadHostKeyException) -> HostError:
    return HostError(
        f"{hop.original_host}: its host key has changed: it is {error.key.get_name()} {error.key.fingerprint}, "
        f"known is {error.expected_key.get_name()} {error.expected_key.fingerprint}",
        "either the board was set up anew, or another machine answers in its place\n"
        f"only if you are sure that it is the board, forget the old key: ssh-keygen -R {shlex.quote(_known_name(hop))}",
    )
