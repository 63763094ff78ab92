"""How hosts reach a simulated board: what faults have made of the line, of sudo and of the start of programs."""

from __future__ import annotations

from dataclasses import dataclass

SUDO_ASKS = "sudo: a password is required"
"""What sudo says where nobody can be asked for one."""


@dataclass
class Reach:
    """All times are on the board's clock.

    ``silence`` is from when until when the line carries nothing, ``delay_s`` how late each message is, ``cuts`` how
    often all connections ended and ``was_reset`` whether the last time with a reset, ``refuses`` whether new ones are
    turned away. ``sudo_asks`` for a password, and ``python_s`` is what the start of an on-board program takes.
    """

    silence: tuple[float, float] = (0.0, 0.0)
    delay_s: float = 0.0
    cuts: int = 0
    was_reset: bool = False
    refuses: bool = False
    sudo_asks: bool = False
    python_s: float = 0.0
