"""The on-board program of the login user: reads world-readable nodes, runs jobs, takes files, samples."""

import base64
import errno

from remote.onboard import probe
from remote.onboard.beside import Beside
from remote.onboard.facts import facts
from remote.onboard.program import Fault, Program, bounded
from remote.onboard.rails import rails
from remote.onboard.sampler import Samplers, own_readings

MYPY = False
if MYPY:  # the typing module is newer than the oldest Python of the boards
    from typing import Any  # novm

    from remote.onboard.system import Handle, Process, System


_GRACE_S = 3.0
_LOOK_S = 0.02
_LONGEST_S = 366 * 86400.0
_HINTS = {
    errno.ENOSPC: "free some space on the board",
    errno.EDQUOT: "free some space on the board: your share of it is used up",
    errno.EROFS: "its disk takes no changes any more, as after an error: see `dmesg` on the board, and restart it",
}
"""What to do where a file could not be stored."""


class _Job(object):
    """A running job, or a span of time that is only sampled (``process`` is None)."""

    def __init__(
        self, number: int, process: "Process | None", started_s: float, until_s: float, samplers: "Samplers | None"
    ) -> None:
        self.number = number  # type: int | None
        self.process = process
        self.started_s = started_s
        self.until_s = until_s
        self.samplers = samplers
        self.beside = None  # type: Beside | None
        self.reason = ""
        self.killed = False
        self.patient = False  # its time may be up without anything being wrong
        self.partial = {}  # type: dict[Handle, bytearray]
        if process is not None:
            self.partial = {process.stdout: bytearray(), process.stderr: bytearray()}


class Agent(Program):
    """See the module."""

    name = "agent"
    longest_bytes = 64 << 20  # a job's whole input may be one line

    def __init__(
        self,
        system: "System",
        boards: "dict[str, dict[str, Any]]",
        build: str,
        beat_s: float = 0.0,
        silence_s: float = 0.0,
        grace_s: float = 0.0,
    ) -> None:
        Program.__init__(self, system, boards, build, beat_s, silence_s, grace_s)
        self.rails = rails(system, self.spec["rails"])
        self.readings = dict(probe.channels(system, self.spec["readings"]), **own_readings(system))
        self._job = None  # type: _Job | None
        self._told = []  # type: list[dict[str, Any]]
        self._note = ""
        self._cache = system.cache()

    def verbs(self) -> "dict[str, Any]":
        return {
            "read": self._read,
            "stream": self._stream,
            "resume": self._resume,
            "cancel": self._cancel,
            "put": self._put,
        }

    def start(self) -> None:
        if self._job is not None:
            self._job.number = None  # a host that came back may use that number for something else
        Program.start(self)

    def hello(self) -> "dict[str, Any]":
        return {
            "facts": facts(self.system, self.texts, self.spec),
            "rails": self.rails,
            "readings": self.readings,
            "note": self._note if self._told or self._job else "",
        }

    def door(self) -> str:
        return str(self.system.cache()) + "/agent.sock"

    def worth_keeping(self) -> bool:
        return self._job is not None or bool(self._told)

    def _tell(self, message: "dict[str, Any]") -> None:
        """Sends a message about the job; keeps it for a host that may come back."""
        if self.connection.grace_s:
            self._told.append(message)
        self.send(message)

    def handles(self) -> "list[Handle]":
        job = self._job
        return list(job.partial) + (job.beside.handles if job.beside else []) if job else []

    def deadline(self) -> "float | None":
        if self._job is None:
            return None
        due = [self._job.until_s]
        sample_s = self._job.samplers.deadline() if self._job.samplers else None
        if sample_s is not None:
            due.append(sample_s)
        if self._job.process is not None and not self._job.partial:
            due.append(self.system.now() + _LOOK_S)  # both outputs have ended, the process has not yet
        return min(due)

    def on_time(self) -> None:
        job = self._job
        if job is None:
            return
        if job.samplers is not None:
            job.samplers.tick()
        if job.process is None:
            if self.system.now() >= job.until_s:
                self._finish(0)
        else:
            code = None if job.partial else job.process.exit_code()
            if code is not None:
                self._finish(code)
            elif self.system.now() >= job.until_s:
                self._overdue(job)

    def on_ready(self, handle: "Handle") -> None:
        job = self._job
        if job is not None and job.beside is not None and handle in job.beside.handles:
            job.beside.on_ready(handle)
        if job is None or handle not in job.partial:
            return
        now = self.system.now()
        data = handle.read()
        lines = []  # type: list[bytearray]
        job.partial[handle] += data
        if b"\n" in data:  # so that a long line is not looked through again with each piece
            lines = job.partial[handle].split(b"\n")
            job.partial[handle] = lines.pop()
        elif not data:
            rest = job.partial.pop(handle)
            lines = [rest] if rest else []
        if lines and job.process is not None:
            source = "stdout" if handle is job.process.stdout else "stderr"
            texts = [line.decode("utf-8", "replace").rstrip("\r") for line in lines]
            self._tell({"id": job.number, "kind": "data", "t_s": now, "source": source, "lines": texts})

    def on_close(self) -> None:
        if self._job is not None and self._job.process is not None:
            self._job.process.kill()
        if self._job is not None and self._job.beside is not None:
            self._job.beside.end()

    def _overdue(self, job: "_Job") -> None:
        """Ends a job whose time is up: asks it first where it was to run that long, then kills it.

        What it started may keep an output open, and is left behind after a while.
        """
        assert job.process is not None
        if job.killed:
            job.partial.clear()
        elif job.patient:
            job.patient = False
            job.reason = "duration"
            job.process.interrupt()
            job.until_s += _GRACE_S
        else:
            job.killed = True
            job.reason = job.reason or "timeout"
            job.process.kill()
            job.until_s += _GRACE_S

    def _finish(self, code: int) -> None:
        job = self._job
        assert job is not None
        self._job = None
        for series in job.samplers.end() if job.samplers else []:
            self._tell({"id": job.number, "kind": "data", "series": series})
        if job.beside is not None:
            job.beside.end()
            self._tell({"id": job.number, "kind": "data", "beside": job.beside.lines})
        reason = job.reason or ("signal %d" % -code if code < 0 else "")
        end = {"exit_code": code, "started_s": job.started_s, "ended_s": self.system.now(), "reason": reason}
        self._tell(dict(end, id=job.number, kind="end"))

    def _read(self, request: "dict[str, Any]") -> "dict[str, Any]":
        texts = {}
        for path in request["paths"]:
            for found in self.system.glob(path) if "*" in path else [path]:
                try:
                    texts[found] = {"text": self.system.read(found)}
                except OSError as error:
                    texts[found] = {"error": errno.errorcode.get(error.errno or 0, "EIO")}
        return {"texts": texts}

    def _resume(self, request: "dict[str, Any]") -> None:
        """Tells a host that came back all that the job has said, and goes on."""
        if not self.worth_keeping():
            raise Fault("board", "nothing is running here that could be picked up")
        if self._job is not None:
            self._job.number = request["id"]
        for message in self._told:
            message["id"] = request["id"]
            self.send(message)

    def _stream(self, request: "dict[str, Any]") -> None:
        if self._job is not None:
            raise Fault("protocol", "a job is running already")
        argv = request["argv"]
        now = self.system.now()
        span_s = bounded(request.get("duration_s") or 0.0, 0.0, _LONGEST_S)
        timed = span_s > 0 or not argv
        if not timed:
            span_s = bounded(request["timeout_s"], 0.0, _LONGEST_S)
        asked = request.get("sampling")
        started = []  # type: list[Process]
        family = self.system.family(started)
        samplers = Samplers(self.system, self.rails, self.readings, asked, family) if asked else None
        beside = Beside(self.system, self._start(request["beside"], {}, "", started)) if request.get("beside") else None
        process = None
        if argv:
            try:
                process = self._start(argv, request.get("env") or {}, request.get("stdin") or "", started)
            except Fault:
                if beside is not None:
                    beside.end()
                raise
        self._told, self._note = [], str(request.get("note") or "")
        self._job = _Job(request["id"], process, now, now + span_s, samplers)
        self._job.beside = beside
        self._job.patient = timed

    def _start(self, argv: "list[str]", env: "dict[str, str]", stdin: str, started: "list[Process]") -> "Process":
        """Returns a started program, which is also added to ``started``. Raises Fault."""
        try:
            started.append(self.system.spawn(argv, env, stdin))
        except OSError as error:
            raise Fault(
                "start", "%s could not be started: %s" % (argv[0], error.strerror), "is it installed on the board?"
            ) from error
        return started[-1]

    def _cancel(self, request: "dict[str, Any]") -> "dict[str, Any]":
        """Ends the job as Ctrl-C would, so that it can still say what it has; kills it when it takes too long."""
        job = self._job
        if job is not None:
            job.reason = "cancelled"
            job.patient = False
            job.until_s = self.system.now()
            if job.process is not None:
                job.process.interrupt()
                job.until_s += _GRACE_S
        return {}

    def _put(self, request: "dict[str, Any]") -> "dict[str, Any]":
        """Takes a file in pieces. Its place is named by its hash and filled only once the hash is right."""
        system = self.system
        digest, name, size = str(request["sha256"]), str(request["name"]), int(request["size"])
        if "/" in name or name.startswith(".") or not digest.isalnum():
            raise Fault("protocol", "not a file name: %r" % name)
        folder = "%s/files/%s" % (self._cache, digest[:32])
        path, part = "%s/%s" % (folder, name), "%s/.%s.part" % (folder, name)
        try:
            if system.exists(path) and system.digest(path) == digest:
                return {"path": path, "offset": size}
            system.make_folder(folder)
            if request.get("source"):
                system.remove(part)
                system.link(request["source"], part)
            there = system.size(part) if system.exists(part) else 0
            if request.get("data") and int(request["offset"]) == there:
                system.append(part, base64.b64decode(str(request["data"])))
                there = system.size(part)
            if there < size:
                return {"path": path, "offset": there}
            if system.digest(part) != digest:
                system.remove(part)
                raise Fault("lost", "%s arrived damaged: its hash is not the one announced" % name, "try again")
            system.rename(part, path)
        except OSError as error:
            what = "%s could not be stored in %s: %s" % (name, folder, error.strerror)
            raise Fault("board", what, _HINTS.get(error.errno or 0, "see that you may write there")) from error
        return {"path": path, "offset": size}
