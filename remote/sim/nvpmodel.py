"""The program nvpmodel: shows and sets the power mode, in the texts of NVIDIA's tool, version 1.1.2."""

from __future__ import annotations

import errno
import re
from collections.abc import Generator, Iterator
from contextlib import suppress

from remote.sim.kernel.power_mode import CONF, STATUS, Conf, mask_of, parse, settings
from remote.sim.process import Action, Context, Err, Out, answered

_ATTACHED = re.compile(r"(-[mfd])([^-].*)$")
_FAILED = 255  # assumed: the tool's code for whatever went wrong
_SHORT = {"--query": "-q", "--parse": "-p", "--mode": "-m", "--conf": "-f", "--help": "-h", "--fan": "-d"}
_FAN_PROFILES = ("quiet", "cool")
_USAGE = """Nvidia Power Model Tool Version 1.1.2
Usage:
nvpmodel [-h --help] [--verbose] [-q --query] [-p --parse] [-m --mode <mode>] [-f --conf <file>] [-d <fan profile>]
-h, --help:         print this help
--verbose:          print more
-p, --parse:        parse the config file only, best with --verbose
-m, --mode <mode>:  switch to the mode that has this ID in the config file
-f, --conf <file>:  another config file; alone: switch to its default mode
-d <fan profile>:   quiet or cool
-q, --query:        tell the current mode
"""


def nvpmodel(context: Context) -> Generator[Action, None, int]:
    """``-q``, ``-p``, each with ``--verbose``, ``-m ID``, ``-f CONF``, ``-d PROFILE``, ``-h``.

    What takes a reboot is refused, as there is none. A fan profile is accepted, without effect (assumed for boards
    whose fan has a service of its own).
    """
    parts = [(found.groups() if (found := _ATTACHED.match(word)) else (word,)) for word in context.argv[1:]]
    words = [_SHORT.get(word, word) for part in parts for word in part]
    verbose = "--verbose" in words
    if "-h" in words:
        yield Out(_USAGE)
        return 0
    path = _after("-f", words) or CONF
    try:
        conf = parse(context.read(path))
    except OSError as error:
        yield Out(f"NVPM ERROR: Error opening {path}: {error.errno or errno.EIO}\n")
        return _FAILED
    except (ValueError, KeyError):
        yield Out(f"NVPM ERROR: failed to parse {path}\n")
        return _FAILED
    if "-p" in words:
        yield Out("".join(f"NVPM VERB: {line}\n" for line in _described(conf, path)) if verbose else "")
        return 0
    if "-m" in words:
        return (yield from _set(context, conf, _after("-m", words)))
    if "-q" in words:
        return (yield from _query(context, conf, verbose))
    if "-d" in words:
        known = _after("-d", words) in _FAN_PROFILES
        yield Out("" if known else f"NVPM ERROR: invalid fan profile {_after('-d', words)}\n")
        return 0 if known else _FAILED
    if path != CONF:
        return (yield from _set(context, conf, str(conf.default)))
    yield Out(_USAGE)
    return _FAILED


def _after(option: str, words: list[str]) -> str:
    """Returns the word after an option, "" without one."""
    return next(iter(words[words.index(option) + 1 :]), "") if option in words else ""


def _described(conf: Conf, path: str) -> Iterator[str]:
    yield f"Config file: {path}"
    yield f"parsing done for {path}"
    for name, param in conf.params.items():
        yield f"PARAM: TYPE={param.kind} NAME={name}"
        yield from (f"{key} {path}" for key, path in param.paths.items())
    for mode in conf.modes.values():
        yield f"POWER_MODEL: ID={mode.number} NAME={mode.name}"
        for name, key, value in mode.values:
            unlimited = conf.params[name].kind == "CLOCK" and value == "-1"
            yield f"{name} {key} {2**31 - 1 if unlimited else value}"
    yield f"PM_CONFIG: DEFAULT={conf.modes[conf.default].name}({conf.default})"


def mode_name(context: Context) -> str:
    """Returns the name of the mode that is set, "" on a board without modes."""
    try:
        return parse(context.read(CONF)).modes[_current(context)].name
    except OSError:
        return ""


def _current(context: Context) -> int:
    return int(context.read(STATUS).strip().removeprefix("pmode:"))


def _query(context: Context, conf: Conf, verbose: bool) -> Generator[Action, None, int]:
    """Reads every setting first, as the tool does: without root the cap of the memory's clock cannot be read."""
    rows = []
    for name, param in conf.params.items():
        for key, path in param.paths.items():
            try:
                rows.append(f"PARAM {name}: ARG {key}: PATH {path}: REAL_VAL: {context.read(path).strip()}")
            except OSError as error:
                if param.kind == "CLOCK" and name.startswith("CPU"):
                    continue  # a cluster without a core that is on
                yield Out(f"NVPM ERROR: Error opening {path}: {error.errno}\n")
                yield Out(f"NVPM ERROR: failed to read PARAM {name}: ARG {key}: PATH {path}\n")
                return _FAILED
    number = _current(context)
    if number not in conf.modes:
        yield Out(f"NVPM ERROR: the config file has no power mode {number}\n")
        return _FAILED
    if verbose:
        yield Out("".join(f"NVPM VERB: {row}\n" for row in rows))
    yield Out(f"NV Power Mode: {conf.modes[number].name}\n{number}\n")
    return 0


def _set(context: Context, conf: Conf, number: str) -> Generator[Action, None, int]:
    mode = conf.modes.get(int(number)) if number.isdecimal() else None
    if mode is None:
        yield Out(f"NVPM ERROR: invalid power mode {number}\n")
        return _FAILED
    try:
        mask, wanted = mask_of(conf, mode), list(settings(conf, mode, context.read))
    except (LookupError, ValueError, RuntimeError):  # StopIteration is one of a generator
        yield Out(f"NVPM ERROR: failed to parse power mode {number}\n")
        return _FAILED
    if mask is not None and int(context.read(mask[0])) != mask[1]:
        yield Out("NVPM WARN: Reboot required for changing to this power mode: " + mode.name + "\n")
        yield Out("NVPM WARN: DO YOU WANT TO REBOOT NOW? enter YES/yes to confirm:\n")
        if (yield from answered(context)) in ("YES", "yes"):
            yield Out("NVPM ERROR: this board is simulated, and a simulated board does not reboot\n")
        else:
            yield Out("NVPM ERROR: bad input!\nNVPM ERROR: optMask is 1, no request for power mode\n")
        return _FAILED
    failed = False
    for path, text in wanted:
        try:
            context.write(path, text)
        except OSError as error:
            failed = True
            yield Err(f"NVPM ERROR: Error writing {text} to {path}: {error.errno}\n")
    if failed:
        return _FAILED
    with suppress(OSError):  # a mode that only another conf has is set, but not kept
        context.write(STATUS, f"pmode:{mode.number:04d}")
    return 0
