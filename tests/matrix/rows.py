"""The rows of the fault matrix: a fault each, and what the four commands make of it (see `tests.matrix.expected`)."""

from __future__ import annotations

from tests.matrix.expected import Row

_FROM_TEGRASTATS = dict.fromkeys(("bench", "rails", "exec"), ("--rails", "tegrastats"))
_IN_A_MODE = {
    "maxperf": ("--mode", "{named}"),
    "bench": ("--profile", "{mode}"),
    "exec": ("--profile", "{mode}"),
}

ROWS = (
    # Clocks that fall below their lock: a lock is verified by the setting, which holds, so maxperf is done. What runs
    # under it is not what was asked for, and says so, whether it uses the clock or not. `rails` shows what there is.
    Row(
        "throttle@",
        "0",
        ("8 INVALID throttled, clocks-not-as-asked",),
        ("0",),
        ("8 INVALID throttled, clocks-not-as-asked",),
    ),
    Row(
        "over-current@",
        "0",
        ("8 INVALID over-current, clocks-not-as-asked",),
        ("0",),
        ("8 INVALID over-current, clocks-not-as-asked",),
    ),
    Row("gpu-sag@", "0", ("8 INVALID clocks-not-as-asked",), ("0",), ("8 INVALID clocks-not-as-asked",)),
    # A memory that is clamped when its rate is set takes a lower one: a warning. Later it falls below what was set.
    Row(
        "emc-clamp@",
        "0 clamped",
        ("0 DEGRADED clocks-clamped", "8 INVALID emc-clamped"),
        ("0",),
        ("0 DEGRADED clocks-clamped", "8 INVALID emc-clamped"),
    ),
    Row("undervoltage@", "0", ("0 DEGRADED undervoltage",), ("0",), ("0 DEGRADED undervoltage",)),
    # Others on the board. What the GPU does for others is looked at while it should be idle, before the run. What
    # begins later is known only by how it slows the run down, so that a desktop that draws little is not.
    Row("foreign-load@", "0", ("0 DEGRADED foreign-load",), ("0",), ("0 DEGRADED foreign-load",)),
    Row("gpu-load@", "0", ("0 DEGRADED gpu-load", "0 DEGRADED drift"), ("0",), ("0 DEGRADED gpu-load", "0 VALID")),
    Row("desktop@", "0", ("0 DEGRADED desktop-session", "0 VALID"), ("0",), ("0 DEGRADED desktop-session", "0 VALID")),
    # Sensors. Frozen ones are known by a board at work; of a board at rest nobody can tell. Where there are none when
    # the command begins there are no watts, and it says so. Those that are lost in the middle break the result.
    Row("rail-freeze@", "0", ("8 INVALID rail-frozen",), ("0",), ("0 DEGRADED stale-samples", "0 VALID")),
    Row("rail-eagain@", "0", ("8 INVALID rail-unreadable",), ("0",), ("8 INVALID rail-unreadable",)),
    Row("rail-negative@", "0", ("8 INVALID rail-negative",), ("0 below-zero",), ("8 INVALID rail-negative",)),
    Row(
        "rail-missing@",
        "0",
        ("0 DEGRADED rails-unknown", "8 INVALID sampler-dead"),
        ("0 no-total", "0 unread"),
        ("0 DEGRADED rails-unknown", "8 INVALID sampler-dead"),
    ),
    Row(
        "sampler-dead@",
        "0",
        ("0 DEGRADED rails-unknown", "8 INVALID sampler-dead"),
        ("0 no-total", "0 unread"),
        ("0 DEGRADED rails-unknown", "8 INVALID sampler-dead"),
    ),
    # Only what computes in FP16 can miss it.
    Row("no-fp16@", "0", ("8 INVALID precision-not-as-asked",), ("0",), ("0 VALID",), {"bench": ("--fp16",)}),
    # A board that restarts before anything is asked of it is a board. In the middle the connection ends.
    Row(
        "reboot@",
        "0",
        ("0 VALID", "3 INVALID rebooted | restarted"),
        ("0", "3 | restarted"),
        ("0 VALID", "3 INVALID rebooted | restarted"),
    ),
    # Spans are by another clock, so that they stand; whoever compares calendars has to know.
    Row("clock-step@", "0", ("0 VALID", "0 DEGRADED clock-step"), ("0",), ("0 VALID", "0 DEGRADED clock-step")),
    # The line. A board that is silent for less than 10 s has stalled, for more it is lost, and so is what it had not
    # told yet. Before the first answer there is nothing to keep.
    # A stall that is over when the measurement begins is no matter.
    Row("link-stall@", "0", ("0 VALID", "0 DEGRADED link-stall"), ("0",), ("0 VALID", "0 DEGRADED link-stall")),
    Row(
        "link-stall@:12s",
        "3 | said nothing",
        ("3 | said nothing", "3 INVALID link-lost | said nothing"),
        ("3 | said nothing",),
        ("3 | said nothing", "3 INVALID link-lost | said nothing"),
    ),
    Row(
        "link-drop@",
        "3 | connection",
        ("3 | connection", "3 INVALID link-lost | connection"),
        ("3 | connection",),
        ("3 | connection", "3 INVALID link-lost | connection"),
    ),
    Row(
        "link-drop@:3s",
        "3 | connection",
        ("3 | connection", "3 INVALID link-lost | connection"),
        ("3 | connection",),
        ("3 | connection", "3 INVALID link-lost | connection"),
    ),
    Row(
        "link-reset@",
        "0",
        ("0 VALID", "3 INVALID link-lost | reset"),
        ("0", "3 | reset"),
        ("0 VALID", "3 INVALID link-lost | reset"),
    ),
    Row("link-slow@", "0", ("0 VALID",), ("0",), ("0 VALID",)),
    # Nothing starts in the middle of a command. Beyond the patience of a connection it is given up.
    Row("slow-python@", "0", ("0 VALID",), ("0",), ("0 VALID",)),
    Row(
        "slow-python@::100",
        "3 | did not start",
        ("3 | did not start", "0 VALID"),
        ("3 | did not start", "0"),
        ("3 | did not start", "0 VALID"),
    ),
    # Without root clocks cannot be set: maxperf has failed, a measurement goes on and says that they float.
    Row(
        "sudo-asks@",
        "4 | a password is required",
        ("0 DEGRADED clocks-float", "0 VALID"),
        ("0",),
        ("0 DEGRADED clocks-float", "0 VALID"),
    ),
    # What is journalled lies in memory, and the network on the board since it was built: no disk is needed.
    # trtexec cannot give its times then.
    Row("disk-full@", "0", ("0 VALID",), ("0",), ("0 VALID",), also=(4, 5)),
    Row("read-only@", "0", ("0 VALID",), ("0",), ("0 VALID",), also=(4, 5)),
    Row("disk-full@", "0", ("4 | No space", "0 VALID"), ("0",), ("0 VALID",), cold=True),
    # What cannot be set is refused. A measurement goes on without it; what cannot be put back after it is told, and is
    # put back by `restore` once it can be.
    Row(
        "write-refused@",
        "4 refused",
        ("0 DEGRADED clocks-float", "4 VALID | not put back"),
        ("0",),
        ("0 DEGRADED clocks-float", "4 VALID | not put back"),
    ),
    Row(
        "write-ignored@",
        "4 refused",
        ("0 DEGRADED clocks-float", "4 VALID | not put back"),
        ("0",),
        ("0 DEGRADED clocks-float", "4 VALID | not put back"),
    ),
    Row(
        "nvpmodel-255@",
        "4 refused",
        ("0 DEGRADED mode-not-as-asked", "4 VALID | not put back"),
        ("0",),
        ("0 DEGRADED mode-not-as-asked", "4 VALID | not put back"),
        _IN_A_MODE,
    ),
    Row(
        "nvpmodel-half@",
        "4 refused",
        ("0 DEGRADED mode-not-as-asked", "4 VALID | not put back"),
        ("0",),
        ("0 DEGRADED mode-not-as-asked", "4 VALID | not put back"),
        _IN_A_MODE,
    ),
    # Of one that begins later it depends on how often the monitors had changed by then.
    Row("rail-stale@", "0", ("0 DEGRADED stale-samples",), ("0",), ("0 DEGRADED stale-samples",), once=True, also=(8,)),
    # tegrastats as the source of the watts.
    Row(
        "tegrastats-dies@",
        "0",
        ("4 | tegrastats", "8 INVALID sampler-dead"),
        ("4 | tegrastats", "0 unread"),
        ("4 | tegrastats", "8 INVALID sampler-dead"),
        _FROM_TEGRASTATS,
    ),
    Row("tegrastats-garbage@", "0", ("0 DEGRADED few-samples",), ("0",), ("0 DEGRADED few-samples",), _FROM_TEGRASTATS),
    Row(
        "tegrastats-silent@::20000",
        "0",
        ("4 | tegrastats", "8 INVALID sampler-dead"),
        ("4 | tegrastats", "0 unread"),
        ("4 | tegrastats", "8 INVALID sampler-dead"),
        _FROM_TEGRASTATS,
    ),
    # Engines. What runs on the processor only is none.
    Row("build-oom@", "0", ("5 | memory", "0 VALID"), ("0",), ("0 VALID",), cold=True),
    Row("engine-hang@", "0", ("5 INVALID run-failed",), ("0",), ("0 VALID",), slack_s=700.0),
    Row("engine-crash@", "0", ("5 INVALID run-failed",), ("0",), ("0 VALID",)),
)
