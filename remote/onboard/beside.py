"""A command that runs beside a job: what it prints is kept, each line with the time at which it came."""

MYPY = False
if MYPY:  # the typing module is newer than the oldest Python of the boards
    from remote.onboard.system import Handle, Process, System


class Beside(object):
    """The command while it runs. ``lines`` are [seconds, text] of its standard output; its other output is dropped."""

    def __init__(self, system: "System", process: "Process") -> None:
        self.process = process
        self.handles = [process.stdout, process.stderr]
        self.lines = []  # type: list[tuple[float, str]]
        self._now = system.now
        self._partial = b""

    def on_ready(self, handle: "Handle") -> None:
        """Takes what one of its outputs has."""
        now_s = self._now()
        data = handle.read()
        if not data:
            self.handles.remove(handle)
        if handle is self.process.stdout:
            whole = (self._partial + data).split(b"\n")
            self._partial = whole.pop()
            self.lines += [(now_s, line.decode("utf-8", "replace").rstrip("\r")) for line in whole]

    def end(self) -> None:
        """Ends the command."""
        self.process.kill()
        self.process.exit_code()
        self.handles = []
