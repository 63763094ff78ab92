"""What the on-board programs tell, from JSON to the records of `remote.types`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from remote.types import Event, Held, Knob, Line, Rail, Reading, Sensor, Series, Snapshot


def events_of(message: Mapping[str, Any]) -> Iterator[Event]:
    """Returns the lines or the samples of one message about a job."""
    if "series" in message:
        yield series_of(message["series"])
    elif "beside" in message:
        for moment_s, text in message["beside"]:
            yield Line(moment_s, "beside", text)
    else:
        for text in message["lines"]:
            yield Line(message["t_s"], message["source"], text)


def series_of(record: Mapping[str, Any]) -> Series:
    """Returns the samples of one channel."""
    return Series(**{**record, "times_s": tuple(record["times_s"]), "values": tuple(record["values"])})


def snapshot_of(record: Mapping[str, Any]) -> Snapshot:
    """Returns the settings."""
    knobs = (Knob(**{**knob, "choices": tuple(knob.get("choices", ()))}) for knob in record["knobs"])
    return Snapshot({knob.id: knob for knob in knobs}, tuple(record["absent"]))


def held_of(record: Mapping[str, Any] | None) -> Held | None:
    """Returns what is in force, None for nothing."""
    return Held(**{**record, "knobs": tuple(record["knobs"])}) if record else None


def rails_of(table: Mapping[str, Mapping[str, Any]]) -> dict[str, Rail]:
    """Returns the rails by name."""
    return {
        name: Rail(name, row["path"], row.get("parent", ""), row.get("place", ""), _sensor(row.get("sensor")))
        for name, row in table.items()
    }


def _sensor(record: Mapping[str, Any] | None) -> Sensor | None:
    return Sensor(**record) if record else None


def readings_of(table: Mapping[str, Mapping[str, Any]]) -> dict[str, Reading]:
    """Returns the readings by name."""
    return {name: Reading(name, row["path"], row["unit"]) for name, row in table.items()}
