"""The simulated board: virtual time, kernel, processes, files, heat. Time passes only in `Machine.wait`."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from remote.sim import silicon
from remote.sim.choice import check, table_for
from remote.sim.files import Files
from remote.sim.harm import Harm
from remote.sim.kernel import Kernel, board
from remote.sim.kernel.node import fail
from remote.sim.physics import Activity, Clocks
from remote.sim.process import Disk, Program
from remote.sim.processes import Pipe, SimProcess
from remote.sim.programs import programs_of
from remote.sim.rails import Monitors, places
from remote.sim.reach import Reach
from remote.sim.schedule import Schedule

if TYPE_CHECKING:
    from remote.sim.system import OnBoard, TwinSystem

_LONGEST_WAIT_S = 0.1


class Machine:
    """A board of kind ``board`` that runs ``release``. The same seed and the same calls give the same texts.

    ``twin`` is the board's table in boards/twins, ``cores`` how many cores are online at boot, ``mode`` the power mode
    that it boots with ("": the release's own), ``probe`` ``"lab"`` for a module with the extra power channels,
    ``programs`` what can be started beside the machine's own, ``faults`` what goes wrong (`remote.sim.faults`).
    With ``speed="1"`` waiting takes real time too, by way of ``sleep``.
    """

    def __init__(
        self,
        board_name: str,
        release: str,
        twin: Mapping[str, Any],
        *,
        seed: int = 0,
        cores: int | None = None,
        mode: str = "",
        probe: str = "",
        speed: str = "max",
        programs: Mapping[str, Program] | None = None,
        faults: Sequence[str] = (),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.board, self.release, self.seed, self.probe = board_name, release, seed, probe
        self.twin = table_for(twin, release)
        self.twin["ina_places"] = places(self.twin["ina"], seed)
        check(f"{board_name}@{release}", self.twin, cores, mode, probe, speed)
        self.now_s = float(self.twin["boot_s"])
        self._next_pid = 1000
        self.files = Files(int(self.twin["disk_free_bytes"]), ("nvidia", "ubuntu", "root"))
        self._sleep = sleep if speed == "1" else None
        self._programs = {**programs_of(release), **(programs or {})}
        self._processes: list[SimProcess] = []
        self._attached: list[tuple[OnBoard, TwinSystem]] = []
        self._turning: set[int] = set()
        self._busy_s = [0.0] * int(self.twin["cores"])
        self._busy_since_s = self.now_s
        self._activity = silicon.IDLE
        self.boots = 0
        self.wall_step_s = 0.0
        self.reach = Reach()
        self._faults = Schedule(Harm(self), faults, self.now_s)
        self._faults.alter(self.twin)
        self._boot(cores, mode)

    def _boot(self, cores: int | None, mode: str) -> None:
        """Makes the kernel and the chip as they are after switching on."""
        self._steps: dict[str, int] = {}
        self.kernel = Kernel(self.twin, self.seed, cores, mode, self._now, lambda: self._activity)
        self.silicon = silicon.Silicon(self.twin, self.now_s, self.kernel.clocks, partial(self.throttle, "heat"))
        self._governed_s = inf
        self._add_sensors()

    def _add_sensors(self) -> None:
        tree, twin = self.kernel.tree, self.twin
        total_bytes = int(twin["memory_bytes"])
        tree.add(board.memory_nodes(total_bytes, lambda: total_bytes - self.free_bytes(), twin["swap_share"]))
        tree.add(board.time_nodes(self._now, self._core_seconds))
        tree.add(board.thermal_zones(twin["zones"], float(twin["zone_step_c"]), self._temperature))
        sensors = Monitors(twin, self.seed, self.probe, self._now, self._watts)
        self.kernel.add("monitors", sensors)
        self._faults.spoil(tree, tuple(sensors.nodes()), self._now)

    # What can be asked

    def _now(self) -> float:
        return self.now_s

    @property
    def wall_s(self) -> float:
        """Seconds since 1970 on the board's own calendar: a fixed start plus the time since boot."""
        return float(self.twin["wall_s"]) + self.wall_step_s + self.now_s

    def take_pid(self) -> int:
        """Returns the number of a new process; none is used twice on one board."""
        self._next_pid += 1
        return self._next_pid

    def alive(self, identity: str) -> bool:
        """Says whether an on-board program runs."""
        return any(system.identity() == identity and not program.closed for program, system in self._attached)

    def free_bytes(self) -> int:
        """Returns the memory that a process can still get."""
        used = sum(process.memory_bytes for process in self._processes)
        return int(self.twin["memory_bytes"]) - int(self.twin["memory_used_bytes"]) - used

    def clocks(self, process: SimProcess | None = None, activity: Activity | None = None) -> Clocks:
        """Returns the rates in effect now, or those that would settle if ``process`` did ``activity``."""
        if activity is None:
            return self.kernel.clocks()
        others = [other.activity for other in self._processes if other is not process]
        return self.kernel.clocks(silicon.combined([*others, activity]))

    def watts(self, rail: str) -> float:
        """Returns the true power of a rail now."""
        return self.silicon.watts()[rail]

    def _watts(self, tau_s: float) -> Mapping[str, float]:
        if not tau_s:
            return self.silicon.watts()
        self.settle()
        return self.silicon.averaged_w(tau_s)

    def energy_j(self, rail: str) -> float:
        """Returns the true energy that went through a rail since the machine was made."""
        self.settle()
        return self.silicon.energy_j.get(rail, 0.0)

    def _temperature(self, source: str) -> float:
        if source.lstrip("-").isdigit():  # a sensor that always says the same
            return float(source)
        self.settle()
        return self.silicon.temperature(source)

    def _core_seconds(self) -> list[float]:
        self._settle_cores()
        return self._busy_s

    # Files

    def read(self, path: str, user: str) -> str:
        """Returns a file's text as ``user``. Raises OSError."""
        tree = self.kernel.tree
        if tree.knows(path):
            return tree.read(path, user == "root")
        return self.files.load(path, user).decode("utf-8", "replace")

    def load(self, path: str, user: str) -> bytes:
        """Returns a file's bytes as ``user``. Raises OSError."""
        if self.kernel.tree.knows(path):
            return self.read(path, user).encode()
        return self.files.load(path, user)

    def write(self, path: str, text: str, user: str) -> None:
        """Writes a node, or replaces the text of an existing file. Raises OSError."""
        tree = self.kernel.tree
        if not tree.knows(path):
            self.files.load(path, user)
            self.files.save(path, text.encode(), user)
            return
        self.settle()
        tree.write(path, text, user == "root")
        self.load_changed()

    def refuse(self, path: str, errno_name: str) -> None:
        """Lets writes to a node fail from now on, with an errno such as ``EIO``; "" ends that."""
        self.kernel.tree.refuse(path, int(getattr(errno, errno_name)) if errno_name else 0)

    # Load

    def settle(self) -> None:
        """Accounts for the time since the last event. Called before anything changes."""
        self.silicon.settle(self.now_s)

    def _settle_cores(self) -> None:
        span_s, self._busy_since_s = self.now_s - self._busy_since_s, self.now_s
        load = self._activity.cpu_load
        for n in range(len(self._busy_s)):
            if self.kernel.cores.is_on(n):
                self._busy_s[n] += span_s * min(1.0, max(0.0, load))
                load -= 1.0

    def load_changed(self) -> None:
        """Takes up what processes do and what settings are now. The caller has settled."""
        self._settle_cores()
        self.kernel.governor.follow()
        self._activity = silicon.combined(process.activity for process in self._processes)
        self.silicon.change(self._activity)
        self._governed_s = self.kernel.due_s()
        if self.kernel.quiet is not None:
            self.kernel.quiet.notice()

    # What befalls it (see `remote.sim.harm`)

    def throttle(self, cause: str, steps: int) -> None:
        """Takes operating points off the highest rates; of several causes, the worst counts."""
        self._steps[cause] = steps
        self.kernel.throttle(max(self._steps.values()))

    def hang_up(self, reset: bool) -> None:
        """Ends all connections without a word. The programs at their ends notice, and do what they do then."""
        self.reach.cuts += 1
        self.reach.was_reset = reset
        for _, system in self._attached:
            system.input.feed(b"")

    def hurry(self) -> None:
        """Has time pass as fast as it can from now on, as nobody looks on any more."""
        self._sleep = None

    def restart(self) -> None:
        """Starts again: settings, processes, connections and what lies in memory are lost; its clock goes on."""
        heat, mode = self.silicon.save(), self.kernel.mode.name if self.kernel.mode else ""
        for program, _ in self._attached:
            program.closed = True
        self._attached, self._processes, self._activity = [], [], silicon.IDLE
        self.files.restart()
        self.boots += 1
        self._boot(None, mode)
        self.kernel.identity.reboot(self.boots)
        self.silicon.load({**heat, "steps": 0}, self.now_s)
        self._faults.boot(self.now_s)

    # Programs

    def program_names(self) -> list[str]:
        """Returns the names of the programs that it has."""
        return list(self._programs)

    def spawn(
        self, argv: Sequence[str], env: Mapping[str, str], stdin: str, user: str, disk: Disk | None = None
    ) -> SimProcess:
        """Starts a program: by the name of the file, or of the script behind an interpreter. Raises OSError.

        ``disk`` is where its ordinary files are, unless they are the machine's own.
        """
        names = [PurePosixPath(word).name for word in argv]
        if names and names[0].startswith("python"):
            names = [name for name, word in zip(names[1:], argv[1:], strict=True) if not word.startswith("-")]
        program = self._programs.get(names[0]) if names else None
        if program is None:
            fail(errno.ENOENT, argv[0] if argv else "")
        program = self._faults.program(names[0], program, self._now)
        process = SimProcess(self, program, tuple(argv), env, stdin, user, disk)
        self.run(process)
        return process

    def run(self, process: SimProcess) -> None:
        """Lets a program that was made begin."""
        self._processes.append(process)
        process.step()

    def processes(self, name: str = "") -> list[SimProcess]:
        """Returns the running processes of a program's name, "" for all."""
        return [process for process in self._processes if name in ("", PurePosixPath(process.name).name)]

    def attach(self, program: OnBoard, system: TwinSystem) -> None:
        """Lets an on-board program live on this machine: it gets its turns whenever another one waits."""
        self.happen()
        self._attached.append((program, system))

    # Time

    def wait(self, system: TwinSystem, handles: Sequence[Pipe], until_s: float | None) -> list[Pipe]:
        """Returns the handles that are ready; else lets time pass until one is, or until ``until_s``.

        Returns [] when ``until_s`` has come, or when nothing can ever happen; in real time also every tenth of a
        second, so that Ctrl-C is seen. While ``system``'s program waits, the others on the machine get their turns; a
        program that waits inside such a turn is answered at once.
        """
        if self._sleep is not None:
            until_s = min(inf if until_s is None else until_s, self.now_s + _LONGEST_WAIT_S)
        nested, boots = bool(self._turning), self.boots
        self._turning.add(id(system))
        try:
            while True:
                ready = [handle for handle in handles if handle.ready]
                if ready or nested or (until_s is not None and self.now_s >= until_s) or self.boots > boots:
                    return ready
                if self._let_others_turn():
                    continue
                target_s = self._next_s(inf if until_s is None else until_s)
                if target_s == inf:
                    return []
                self._pass_until(target_s)
        finally:
            self._turning.discard(id(system))

    def _let_others_turn(self) -> bool:
        """Gives each other program a turn that has something to do. Says whether one had."""
        turned = False
        for program, system in self._attached:
            if program.closed or id(system) in self._turning:
                continue
            due_s = program.due()
            if (due_s is not None and due_s <= self.now_s) or any(handle.ready for handle in program.awaited()):
                program.turn()
                turned = True
        return turned

    def _next_s(self, until_s: float) -> float:
        """Returns the next moment at which something happens; inf for never."""
        soonest = until_s
        for process in self._processes:
            if process.due_s is not None and process.due_s < soonest:
                soonest = process.due_s
        for program, system in self._attached:
            if not program.closed and id(system) not in self._turning:
                due_s = program.due()
                if due_s is not None and due_s < soonest:
                    soonest = due_s
        return soonest

    def _pass_until(self, target_s: float) -> None:
        """Lets time pass with all that happens to the board on the way, or until something goes wrong there."""
        while True:
            at_s = min(target_s, self._next_of_board_s())
            if at_s > self.now_s:
                if self._sleep is not None:
                    self._sleep(at_s - self.now_s)
                self.now_s = at_s
            harmed = self._faults.due_s <= self.now_s
            self._act()
            if harmed or at_s >= target_s:
                return

    def _next_of_board_s(self) -> float:
        quiet_s = self.kernel.quiet.due_s() if self.kernel.quiet is not None else None
        return min(self.silicon.due_s, self._faults.due_s, self._governed_s, inf if quiet_s is None else quiet_s)

    def _act(self) -> None:
        """Does what is due now: faults, heat, cores to park, processes."""
        self.happen()
        now_s, quiet = self.now_s, self.kernel.quiet
        if self.silicon.due_s <= now_s:
            self.settle()
            self.silicon.check(now_s)
        if self._governed_s <= now_s:
            self.settle()
            self.load_changed()
        due_s = quiet.due_s() if quiet is not None else None
        if quiet is not None and due_s is not None and due_s <= now_s:
            self.settle()
            quiet.act()
            self.load_changed()
        ended = False
        for process in self._processes:
            while process.due_s is not None and process.due_s <= now_s:
                process.step()
            ended = ended or process.due_s is None
        if ended:
            self._processes = [process for process in self._processes if process.due_s is not None]

    def happen(self) -> None:
        """Lets the faults happen that are due."""
        if self._faults.due_s <= self.now_s:
            self.settle()
            self._faults.act(self.now_s)
            self.load_changed()

    # State

    def save(self) -> dict[str, Any]:
        """Returns what outlives a command, ready for JSON: settings, time, heat, files. Processes do not."""
        self.settle()
        return {
            "now_s": self.now_s,
            "next_pid": self._next_pid,
            "boots": self.boots,
            "busy_s": self._core_seconds(),
            "kernel": self.kernel.save(),
            "silicon": self.silicon.save(),
            "files": self.files.save_all(),
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Takes up what `save` gave, on a machine that nothing has run on yet."""
        self._faults.move(float(saved["now_s"]) - self.now_s)
        self.now_s = self._busy_since_s = float(saved["now_s"])
        self._next_pid = int(saved["next_pid"])
        self.boots = int(saved.get("boots", 0))
        self._busy_s = list(saved["busy_s"])
        self.kernel.load(saved["kernel"])
        self.silicon.load(saved["silicon"], self.now_s)
        self.files.load_all(saved["files"])
        self.load_changed()
