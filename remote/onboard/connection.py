"""The line to the host. A host that says nothing for too long is lost; for a while it may come back through a door."""

MYPY = False
if MYPY:  # the typing module is newer than the oldest Python of the boards
    from remote.onboard.system import System


class Connection(object):
    """How to reach the host, and since when not.

    ``beat_s`` is how often the board says that it is there, ``silence_s`` how long the host may say nothing,
    ``grace_s`` how long it may be gone before what it left is put back; 0 for never, no limit, and not at all.
    ``door`` is the socket at which a host that lost its line is let in again.
    """

    def __init__(self, system: "System", door: str, beat_s: float, silence_s: float, grace_s: float) -> None:
        self._system = system
        self._door = door
        self._beat_s = beat_s
        self._silence_s = silence_s
        self.grace_s = grace_s
        self.linked = True
        self.broken = False
        self.handle = system.input
        self._heard_s = self._beat_due_s = self._lost_s = system.now()

    def deadline(self) -> "float | None":
        """Returns when something is due here."""
        if not self.linked:
            return self._lost_s + self.grace_s
        due = [self._heard_s + self._silence_s] if self._silence_s else []
        if self._beat_s:
            due.append(self._beat_due_s)
        return min(due) if due else None

    def read(self) -> bytes:
        """Returns what the host sent, b"" when it is gone."""
        try:
            data = self._system.input.read()
        except OSError:
            data = b""
        self._heard_s = self._system.now()
        return data

    def send(self, data: bytes) -> None:
        """Sends to the host if it is there. A line that breaks here is seen at the next `lost`."""
        if self.linked and not self.broken:
            try:
                self._system.send(data)
            except OSError:
                self.broken = True

    def beat_is_due(self) -> bool:
        """Says whether it is time to tell the host that the board is there."""
        now = self._system.now()
        if not (self.linked and self._beat_s and now >= self._beat_due_s):
            return False
        self._beat_due_s = now + self._beat_s
        return True

    def lost(self) -> bool:
        """Says whether the host must be given up for now."""
        silent = self._silence_s and self._system.now() >= self._heard_s + self._silence_s
        return self.linked and bool(self.broken or silent)

    def over(self) -> bool:
        """Says whether a lost host has been gone for longer than its grace."""
        return not self.linked and self._system.now() >= self._lost_s + self.grace_s

    def open_door(self) -> None:
        """Lets go of the line and waits for the host to come back. Raises OSError."""
        self._lost_s = self._system.now()
        self.handle = self._system.listen(self._door)
        self.linked = False

    def admit(self) -> None:
        """Takes up the line of whoever is at the door."""
        self._system.accept(self.handle)
        self._system.remove(self._door)
        self.handle = self._system.input
        self.linked, self.broken = True, False
        self._heard_s = self._beat_due_s = self._system.now()
