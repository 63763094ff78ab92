"""Saved results -> what a simulated board is fitted to. What cannot be used is refused, with the reason."""

from __future__ import annotations

import glob
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any, cast

from edgeperf import store
from edgeperf.store import Saved
from engines import models
from engines.cost import Precision
from engines.network import Network
from engines.simulated.calibration import Point
from engines.simulated.explain import FLAVOURS
from engines.simulated.protocol import Engine, Mode
from engines.spec import Protocol
from remote.boards import BoardSpec
from remote.errors import EdgeperfError, UsageError
from remote.sim.choice import table_for
from remote.sim.physics import CHANNELS, Clocks

_SIGMAS = 1.96  # half of a 95 % interval, in standard errors


@dataclass(frozen=True)
class Refused:
    """A file that was not used, and why."""

    file: str
    reason: str


@dataclass(frozen=True)
class Usable:
    """A result that can be fitted to, as a point; ``network`` and ``precision`` as they were measured."""

    file: str
    network: str
    precision: Precision
    toolchain: str
    l4t: str
    serial: str
    simulated: bool
    watts_missing: str
    point: Point


@dataclass(frozen=True)
class Measured:
    """One point, and the results that it is the mean of."""

    point: Point
    results: tuple[Usable, ...]


def files(names: Sequence[str], folder: Path) -> list[str]:
    """Returns the files that names of files, folders, patterns and saved results mean; ``folder`` has the saved ones.

    Raises UsageError for a name that means none.
    """
    found: list[str] = []
    for name in names:
        if Path(name).is_dir():
            meant = sorted(map(str, Path(name).glob("*.json")))
        elif Path(name).is_file():
            meant = [name]
        else:
            meant = sorted(glob.glob(name, recursive=True))
            if not meant and "/" in name:
                raise UsageError(
                    f"{name}: there is no result, file or folder of that name",
                    "name results, or folders that hold some",
                )
            meant = meant or [str(store.find(folder, name).path)]
        if not meant:
            raise UsageError(f"{name}: there is no result in this folder", "results are files that end with .json")
        found += meant
    return list(dict.fromkeys(found))


def read(names: Sequence[str], spec: BoardSpec, folder: Path) -> tuple[list[Usable], list[Refused]]:
    """Returns the results for the board ``spec`` that can be used, of one toolchain, and those that cannot."""
    usable: list[Usable] = []
    refused: list[Refused] = []
    for file in names:
        try:
            usable.append(_usable(store.find(folder, file), spec))
        except EdgeperfError as error:
            refused.append(Refused(file, error.what.replace(f"{file} is", "it is", 1)))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            refused.append(Refused(file, f"it is damaged, or of another edgeperf: {error or type(error).__name__}"))
    tables = Counter(FLAVOURS[one.toolchain][1] for one in usable)
    if len(tables) > 1:
        ((most, _),) = tables.most_common(1)
        others = [one for one in usable if FLAVOURS[one.toolchain][1] != most]
        reason = f"measured with {{}}, the most others with {most}: fit one toolchain at a time"
        refused += [Refused(one.file, reason.format(one.toolchain)) for one in others]
        usable = [one for one in usable if one not in others]
    return usable, refused


def points(usable: Sequence[Usable]) -> list[Measured]:
    """Returns a point for each different thing that was measured: repeated runs are one, and weigh by their spread."""
    same: dict[Point, list[Usable]] = {}
    for one in usable:
        clocks = _near(one.point.clocks)
        bare = replace(one.point, clocks=clocks, seconds=0.0, spread=0.0, watts=None, watts_spread=0.0, idle_w=None)
        same.setdefault(bare, []).append(one)
    return [Measured(_mean([one.point for one in runs]), tuple(runs)) for runs in same.values()]


def _near(clocks: Clocks) -> Clocks:
    """Returns clocks with three digits: what drivers read differs a little from run to run."""
    cpu_hz, gpu_hz, emc_hz = (float(f"{hz:.2e}") for hz in (clocks.cpu_hz, clocks.gpu_hz, clocks.emc_hz))
    return replace(clocks, cpu_hz=cpu_hz, gpu_hz=gpu_hz, emc_hz=emc_hz)


def _mean(runs: Sequence[Point]) -> Point:
    logs = [math.log(run.seconds) for run in runs]
    watts = [run.watts for run in runs if run.watts]
    idle = [run.idle_w for run in runs if run.idle_w]
    return replace(
        runs[0],
        seconds=math.exp(mean(logs)),
        spread=_error(logs, [run.spread for run in runs]),
        watts=mean(watts) if watts else None,
        watts_spread=_error([math.log(one) for one in watts], [run.watts_spread for run in runs if run.watts]),
        idle_w=mean(idle) if idle else None,
    )


def _error(values: Sequence[float], errors: Sequence[float]) -> float:
    """Returns the standard error of the mean of ``values``: by how they differ, and not below what each has itself."""
    if len(values) < 2:
        return max(errors, default=0.0)
    return max(stdev(values), mean(errors)) / math.sqrt(len(values))


def _usable(saved: Saved, spec: BoardSpec) -> Usable:
    """Returns a result as a point. Raises EdgeperfError with why it is none."""
    data = saved.data
    if data["kind"] != "bench":
        raise UsageError("it is of a command, not of a network")
    what = data["spec"]
    toolchain, board = what["toolchain"], data["board"]
    if board["name"] != spec.name:
        raise UsageError(f"it is of another board: {board['name']}")
    if data["verdict"]["state"] == "INVALID":
        reasons = [reason["text"] for reason in data["verdict"]["reasons"] if reason["severity"] == "INVALID"]
        raise UsageError(": ".join(["its verdict is INVALID", *(["; ".join(reasons)] if reasons else [])]))
    if toolchain not in FLAVOURS:
        raise UsageError(f"simulated boards have no model of {toolchain}")
    if not data["throughput_per_s"]:
        raise UsageError("it has no images per second")
    if what["precision"] not in ("fp32", "fp16"):
        raise UsageError(f"simulated boards have no {what['precision']}")
    precision = cast(Precision, what["precision"])
    protocol = _record(Protocol, data["engine"]["protocol"] or {})
    engine = Engine(_network(saved), what["batch"], precision, protocol.workspace_bytes, protocol.tf32)
    clocks = _clocks(data, spec)
    speed = data["throughput_per_s"]
    point = Point(
        engine=engine,
        mode=_record(Mode, data["engine"]["protocol"] or {}),
        flavour=FLAVOURS[toolchain][0],
        clocks=clocks,
        seconds=what["batch"] / speed["value"],
        spread=_spread(speed["value"], speed["ci95"]),
    )
    rails, missing = _rails(data, spec)
    if rails:
        point = _with_watts(point, rails, data)
    return Usable(
        str(saved.path),
        what["model"],
        precision,
        toolchain,
        board["l4t"],
        board["serial"],
        data["simulated"],
        missing,
        point,
    )


def _record(kind: Any, table: Mapping[str, Any]) -> Any:
    return kind(**{field.name: table[field.name] for field in fields(kind) if field.name in table})


def _spread(value: float, ci95: Sequence[float] | None) -> float:
    return (ci95[1] - ci95[0]) / 2 / _SIGMAS / value if ci95 else 0.0


def _clocks(data: Mapping[str, Any], spec: BoardSpec) -> Clocks:
    """Returns the clocks under load. Raises UsageError where they are not known."""
    found = data["clocks"]["effective"]
    unknown = [name for name in ("cpu", "gpu", "emc") if not found[f"{name}_hz"]]
    if unknown:
        raise UsageError(f"its {' and '.join(unknown)} clock is not known: measure as root, with --profile maxperf")
    share = _gpu_share(data, spec) if data["raw"] else 1.0
    return Clocks(found["cpu_hz"], found["gpu_hz"], found["emc_hz"], data["board"]["cpus"], share)


def _gpu_share(data: Mapping[str, Any], spec: BoardSpec) -> float:
    """Returns which part of the GPU's lanes the power mode left on, 1 where no mode is known."""
    hello, locked = data["raw"]["hello"], data["raw"]["measured"]["locked"]
    names = [row["now"] for row in locked["outcomes"] if row["knob"] == "nvpmodel.mode" and row["now"] is not None]
    names += [hello["found"]["knobs"].get("nvpmodel.mode", {}).get("value")]
    release = next((name for name in reversed(spec.releases) if _major(name[1:]) == _major(data["board"]["l4t"])), None)
    if release is None:
        return 1.0
    twin = table_for(spec.twin, release)
    masks = [row.get("mask", 0) for row in twin.get("nvpmodel", {}).get("modes", ()) if row["name"] == names[0]]
    device = twin["gpu_device"]
    if not masks or "processors" not in device:
        return 1.0
    active = int(device["processors"]) - int(masks[0]).bit_count()
    return min(1.0, active * int(device["lanes_each"]) / int(twin["gpu"]["lanes"]))


def _major(l4t: str) -> str:
    return l4t.partition(".")[0]


def _rails(data: Mapping[str, Any], spec: BoardSpec) -> tuple[tuple[str, ...], str]:
    """Returns the rails of the simulated board that cover what was measured, or none and why."""
    power = data["power_w"]
    if not power:
        return (), data["power_missing"] or "no watts were measured"
    known = {*CHANNELS, *spec.twin["electrics"]["rails"]}
    for total in spec.totals:
        if total.scope == power["scope"] and set(total.rails) <= known:
            return total.rails, ""
    return (), f"the simulated {spec.name} has no watts of the scope {power['scope']}"


def _with_watts(point: Point, rails: tuple[str, ...], data: Mapping[str, Any]) -> Point:
    power = data["power_w"]
    locked = data["clocks"]["asked"]["gpu_hz"] is not None  # else the clocks at idle were others than under load
    return replace(
        point,
        rails=rails,
        watts=power["total"],
        watts_spread=_spread(power["total"], power["absolute95"] or power["ci95"]),
        idle_w=power["idle_total"] if locked else None,
    )


def _network(saved: Saved) -> Network:
    """Returns the network that was measured. Raises UsageError where neither its name nor its file is known."""
    what, raw = saved.data["spec"], saved.data["raw"]
    name, batch = what["model"], what["batch"]
    if name in models.names():
        return models.load(name, batch).network
    request = raw["measured"]["request"] if raw else {}
    asked = str(request.get("model", f"{name}.onnx"))
    shapes = {name: tuple(dims) for name, dims in request.get("options", {}).get("shapes", {}).items()}
    for path in (Path(asked).expanduser(), saved.path.with_name(f"{name}.onnx")):
        if path.is_file():
            return models.load(str(path), batch, shapes).network
    raise UsageError(f"its network {name} is not built in, and {asked} is not there: put it beside the result")
