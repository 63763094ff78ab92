"""The error tree. Every error says what, where and what to do next, and knows its exit code.

EdgeperfError
|- UsageError            2   what the user typed, a profile or a model file
|- HostError             3   the host could not be reached or understood
|  '- LinkLost           3   transient
|- BoardError            4   the board or its clocks
|  |- KnobRefused        4
|  '- LeaseHeld          4   transient
|- EngineError           5   building or running a network
|  |- OutOfMemory        5
|  |- PlanMismatch       5
|  |- UnsupportedModel   5
|  |- DeviceDenied       5
|  '- ToolMissing        5
'- Interrupted         130   Ctrl-C
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from remote.types import Line


class EdgeperfError(Exception):
    """``what`` went wrong and where; ``hint`` is what to do next. ``transient`` troubles may pass by themselves."""

    exit_code = 1
    transient = False

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what}\n{self.hint}" if self.hint else self.what


class UsageError(EdgeperfError, ValueError):
    """What the user typed, a profile or a model file is wrong."""

    exit_code = 2


class HostError(EdgeperfError, OSError):
    """A host could not be reached or understood."""

    exit_code = 3

    __str__ = EdgeperfError.__str__


class LinkLost(HostError):
    """The connection ended in the middle of something; of a job that ran, ``said`` is what it had printed."""

    transient = True
    said: tuple[Line, ...] = ()


class BoardError(EdgeperfError):
    """The board, or its clocks, did not do as asked."""

    exit_code = 4


class KnobRefused(BoardError):
    """A setting could not be changed or put back."""


class LeaseHeld(BoardError):
    """Someone else holds the board."""

    transient = True


class EngineError(EdgeperfError):
    """A network could not be built or run."""

    exit_code = 5


class OutOfMemory(EngineError):
    """A network does not fit the board's memory."""


class PlanMismatch(EngineError):
    """An engine was built by another TensorRT or for another device."""


class UnsupportedModel(EngineError):
    """A network has something in it that this toolchain cannot do."""


class DeviceDenied(EngineError):
    """The board's GPU cannot be used: no permission, no driver, or none there."""


class ToolMissing(EngineError):
    """Software that is needed on the board is not there, or is not the right one."""


class Interrupted(EdgeperfError):
    """The user stopped it before there was anything to keep."""

    exit_code = 130
