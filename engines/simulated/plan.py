"""The plan file of a simulated engine: what was built, for which TensorRT on which GPU. Pure."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from dataclasses import dataclass

from engines.cost import BYTES_PER_NUMBER, cost
from engines.emit.graphjson import graph_json, parse_graph
from engines.simulated.protocol import Engine
from engines.simulated.stack import Stack
from remote.errors import UsageError

_FORMAT = 1


class Refused(Exception):
    """TensorRT does not load this plan: its words."""


@dataclass(frozen=True)
class Plan:
    """An engine with what it was built for, and how large its real plan would be."""

    engine: Engine
    tensorrt: str
    device: str
    sm: str
    sms: int
    engine_bytes: int

    @classmethod
    def of(cls, engine: Engine, stack: Stack) -> Plan:
        """Returns the plan of an engine built by ``stack``: as large as its weights."""
        size = sum(row.weight_bytes for row in cost(engine.network, engine.batch, engine.precision))
        return cls(engine, stack.version, stack.device, stack.sm, stack.sms, size)

    @property
    def tensor_bytes(self) -> int:
        """The bytes of the tensors in use at once: twice those of the largest layer."""
        rows = cost(self.engine.network, self.engine.batch, self.engine.precision)
        return 2 * max((row.read_bytes - row.weight_bytes + row.written_bytes for row in rows), default=0)


def plan_text(plan: Plan) -> bytes:
    """Returns the file."""
    engine = plan.engine
    graph = graph_json(engine.network, engine.batch, engine.precision, 0)
    table = {
        "twin plan": _FORMAT,
        "tensorrt": plan.tensorrt,
        "device": plan.device,
        "sm": plan.sm,
        "sms": plan.sms,
        "engine_bytes": plan.engine_bytes,
        "batch": engine.batch,
        "precision": engine.precision,
        "workspace_bytes": engine.workspace_bytes,
        "tf32": engine.tf32,
        "speed": engine.speed,
        "graph": base64.b64encode(zlib.compress(graph.encode(), 9)).decode("ascii"),
    }
    return json.dumps(table).encode()


def read_plan(data: bytes) -> Plan:
    """Returns what `plan_text` wrote. Raises Refused for anything else."""
    try:
        table = json.loads(data)
        if table["twin plan"] != _FORMAT or table["precision"] not in BYTES_PER_NUMBER:
            raise ValueError(table["twin plan"])
        graph = zlib.decompress(base64.b64decode(table["graph"])).decode()
        engine = Engine(
            parse_graph(graph),
            int(table["batch"]),
            table["precision"],
            int(table["workspace_bytes"]),
            bool(table["tf32"]),
            float(table["speed"]),
        )
        size = int(table["engine_bytes"])
        return Plan(engine, table["tensorrt"], table["device"], table["sm"], int(table["sms"]), size)
    except (ValueError, KeyError, TypeError, binascii.Error, zlib.error, UsageError) as error:
        raise Refused(
            "1: Serialization assertion magicTagRead == kPLAN_MAGIC_TAG failed. Magic tag does not match"
        ) from error


def engine_bytes(data: bytes) -> int | None:
    """Returns how large the plan in a file would really be; None where it is no plan."""
    try:
        return read_plan(data).engine_bytes
    except Refused:
        return None


def load(data: bytes, stack: Stack) -> Plan:
    """Returns the plan in a file as ``stack`` takes it. Raises Refused as TensorRT does."""
    plan = read_plan(data)
    if plan.tensorrt != stack.version:
        raise Refused(
            "6: The engine plan file is not compatible with this version of TensorRT, "
            f"expecting library version {stack.version} got {plan.tensorrt}, please rebuild."
        )
    if plan.sm != stack.sm:
        raise Refused(
            "6: The engine plan file is generated on an incompatible device, "
            f"expecting compute {stack.sm} got compute {plan.sm}, please rebuild."
        )
    return plan


def doubt(plan: Plan, stack: Stack) -> str:
    """Returns what TensorRT warns of where a plan comes from another model of the same GPU, else ""."""
    if (plan.device, plan.sms) == (stack.device, stack.sms):
        return ""
    return "Using an engine plan file across different models of devices is not recommended."
