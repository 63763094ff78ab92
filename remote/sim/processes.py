"""Running programs of the twin: a generator each, its outputs, its memory, what it keeps busy."""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING

from remote.sim.physics import Activity, Clocks
from remote.sim.process import Action, Busy, Died, Disk, Err, Out, OutOfBoardMemory, Program
from remote.sim.silicon import fair_share

if TYPE_CHECKING:
    from remote.sim.machine import Machine

_SIGINT, _SIGKILL = 2, 9
TYPED = "\0"
"""The stdin of a program to which somebody may yet type something, see `SimProcess.answer`."""


class Pipe:
    """A byte stream that can be waited on; `feed` is the writer's side."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._ended = False

    @property
    def ready(self) -> bool:
        """Whether `read` has something to say, be it only the end."""
        return bool(self._data) or self._ended

    def feed(self, data: bytes) -> None:
        """Adds bytes; b"" says that nothing more will come."""
        self._data += data
        self._ended = self._ended or not data

    def read(self) -> bytes:
        """Returns what is there now, b"" at the end of the stream."""
        data = bytes(self._data)
        self._data.clear()
        return data


class SimProcess:
    """One started program, with the handles that `remote.onboard.system.Process` has.

    ``due_s`` is when it does its next thing, None once it has ended; ``activity`` is what it keeps busy until then;
    ``asking`` says whether it waits for an answer.
    """

    def __init__(
        self,
        machine: Machine,
        program: Program,
        argv: tuple[str, ...],
        env: Mapping[str, str],
        stdin: str,
        user: str,
        disk: Disk | None = None,
    ) -> None:
        self.asking = False
        self.stdout = Pipe()
        self.stderr = Pipe()
        self.due_s: float | None = machine.now_s
        self.activity: Activity | None = None
        self.memory_bytes = 0
        self._busy_s = 0.0
        self._busy_since_s = machine.now_s
        self._machine = machine
        self._code = 0
        self._mistake: Exception | None = None
        self.name = argv[0]
        self._context = ProcessContext(machine, self, argv, env, stdin, user, disk)
        self._run: Generator[Action, None, int] = program(self._context)

    def step(self) -> None:
        """Goes on until the program lets time pass or ends. Files that fail end it with a message, as in a shell."""
        self._advance(None)

    def _advance(self, signal: BaseException | None) -> None:
        activity = None
        try:
            while True:
                action = self._run.throw(signal) if signal is not None else next(self._run)
                signal = None
                if not isinstance(action, Out | Err):
                    break
                if action.text:
                    (self.stdout if isinstance(action, Out) else self.stderr).feed(action.text.encode())
            assert self.due_s is not None
            self.due_s = max(self.due_s, self._machine.now_s) + max(0.0, action.seconds)
            activity = action.activity if isinstance(action, Busy) else None
        except StopIteration as stop:
            self._end(int(stop.value or 0))
        except KeyboardInterrupt:
            self._end(-_SIGINT)
        except OutOfBoardMemory:
            self._end(-_SIGKILL)
        except Died as died:
            self._end(died.code)
        except OSError as error:
            self.stderr.feed(f"{self.name}: {error.filename or ''}: {error.strerror}\n".encode("utf-8", "replace"))
            self._end(1)
        except Exception as error:  # of the program itself: for whoever started it, not for who happens to wait
            self._mistake = error
            self._end(1)
        if activity != self.activity:
            self._machine.settle()
            self._take_up(activity)
            self._machine.load_changed()

    @property
    def cpu_s(self) -> float:
        """CPU seconds that it took until now."""
        load = self.activity.cpu_load if self.activity is not None else 0.0
        return self._busy_s + load * (self._machine.now_s - self._busy_since_s)

    def _take_up(self, activity: Activity | None) -> None:
        self._busy_s, self._busy_since_s = self.cpu_s, self._machine.now_s
        self.activity = activity

    def _end(self, code: int) -> None:
        self._run.close()
        self._code = code
        self.due_s = None
        self.memory_bytes = 0
        self.stdout.feed(b"")
        self.stderr.feed(b"")

    def exit_code(self) -> int | None:
        """Returns the code once both outputs have ended, -N for signal N. Raises what a mistake in the program did."""
        if self._mistake is not None:
            raise self._mistake
        return self._code

    def answer(self, text: str) -> None:
        """Gives it the line that it is `asking` for."""
        self._context.stdin = text
        self.asking = False

    def interrupt(self) -> None:
        """Does what Ctrl-C does: a program that does not catch KeyboardInterrupt ends."""
        if self.due_s is not None:
            self.due_s = self._machine.now_s
            self._advance(KeyboardInterrupt())

    def kill(self) -> None:
        """Ends the program at once."""
        if self.due_s is not None:
            self._machine.settle()
            self._take_up(None)
            self._end(-_SIGKILL)
            self._machine.load_changed()


class ProcessContext:
    """What `remote.sim.process.Context` promises a program, for one process."""

    def __init__(
        self,
        machine: Machine,
        process: SimProcess,
        argv: tuple[str, ...],
        env: Mapping[str, str],
        stdin: str,
        user: str,
        disk: Disk | None = None,
    ) -> None:
        self.argv, self.env, self.stdin = argv, env, stdin
        self._machine, self._process, self._user = machine, process, user
        self._own_disk = disk

    @property
    def _disk(self) -> Disk:
        return self._own_disk or self._machine.files

    def asks(self) -> bool:
        """Says that `stdin` is needed now; returns whether it is yet to come, which it is for `TYPED` only."""
        self._process.asking = self.stdin == TYPED
        return self._process.asking

    def now(self) -> float:
        """Returns the board's monotonic clock in seconds."""
        return self._machine.now_s

    def random(self) -> int:
        """Returns a seed that depends on the board's seed and the time now."""
        return random.Random(f"{self._machine.seed} {self._machine.now_s:.9f}").getrandbits(63)

    def clocks(self, activity: Activity | None = None) -> Clocks:
        """Returns the clocks in effect now, or under ``activity`` of this process."""
        return self._machine.clocks(self._process, activity)

    def gpu_share(self) -> float:
        """Returns the share of the GPU's time that this process can get beside the others."""
        others = [one.activity for one in self._machine.processes() if one is not self._process]
        return fair_share(other.gpu_load for other in others if other is not None)

    def allocate(self, size_bytes: int) -> None:
        """Takes memory until the process ends. Raises OutOfBoardMemory."""
        free = self._machine.free_bytes()
        if size_bytes > free:
            raise OutOfBoardMemory(f"{size_bytes} bytes asked for, {free} free")
        self._process.memory_bytes += size_bytes

    def read(self, path: str) -> str:
        """Reads a node or file. Raises OSError."""
        return self.load(path).decode("utf-8", "replace")

    def write(self, path: str, text: str) -> None:
        """Writes a node. Raises OSError."""
        self._machine.write(path, text, self._user)

    def load(self, path: str) -> bytes:
        """Reads a file's bytes. Raises OSError."""
        # What is below /sys and /proc is the kernel's or nowhere: asking a disk in a mount of it would come back here.
        kernels = self._machine.kernel.tree.knows(path) or path.startswith(("/sys/", "/proc/"))
        if self._own_disk and not kernels:
            return self._own_disk.load(path, self._user)
        return self._machine.load(path, self._user)

    def save(self, path: str, data: bytes) -> None:
        """Writes a file. Raises OSError."""
        self._disk.save(path, data, self._user)
        self.touch(path)

    def match(self, path: str) -> list[str]:
        """Returns what a shell pattern stands for among ordinary files."""
        return self._disk.match(path, self._user)

    def size(self, path: str) -> int:
        """Returns a file's length. Raises OSError."""
        return self._disk.size(path, self._user)

    def changed_s(self, path: str) -> float:
        """Returns when a program wrote or touched a file, 0 where none did. Raises OSError."""
        return self._disk.changed_s(path, self._user)

    def touch(self, path: str) -> None:
        """Notes that a file was used. Raises OSError."""
        self._disk.touch(path, self._user, self.wall())

    def rename(self, old: str, new: str) -> None:
        """Moves a file. Raises OSError."""
        self._disk.rename(old, new, self._user)

    def remove(self, path: str) -> None:
        """Removes a file. Raises OSError."""
        self._disk.remove(path, self._user)

    def make_folder(self, path: str) -> None:
        """Makes a private folder. Raises OSError."""
        self._disk.make_folder(path, self._user)

    def start(self, argv: Sequence[str]) -> None:
        """Starts another program that goes on when this one has ended. Raises OSError."""
        self._machine.spawn(argv, self.env, "", self._user, self._own_disk)

    def stop(self, name: str) -> None:
        """Ends all other processes of that name."""
        for process in self._machine.processes(name):
            if process is not self._process:
                process.kill()

    def wall(self) -> float:
        """Returns the board's calendar."""
        return self._machine.wall_s

    @property
    def twin(self) -> Mapping[str, object]:
        """The board's numbers for this release."""
        return self._machine.twin

    @property
    def release(self) -> str:
        """The simulated L4T release."""
        return self._machine.release
