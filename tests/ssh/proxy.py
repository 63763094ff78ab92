"""A TCP proxy whose lines can be cut: it stops forwarding without a word, or resets them."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field

_RESET = struct.pack("ii", 1, 0)  # linger on, for no time: closing throws away what is unsent and resets


@dataclass
class Proxy:
    """Forwards ``port`` of this machine to another one of it. Lines made after a cut work again."""

    target: int
    _lines: list[Line] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):  # closed
            while True:
                near, _ = self._door.accept()
                self._lines.append(Line(near, socket.create_connection(("127.0.0.1", self.target))))

    def stall(self) -> None:
        """Stops forwarding; both ends keep their connection."""
        for line in self._lines:
            line.open.clear()

    def holds(self) -> bool:
        """Says whether a stalled line has something from either end by now."""
        return any(len(line.held) == 2 for line in self._lines)

    def go_on(self) -> None:
        """Forwards again, what came meanwhile first."""
        for line in self._lines:
            line.open.set()

    def reset(self) -> None:
        """Resets all lines, towards both ends."""
        for line in self._lines:
            line.reset()
        self._lines.clear()

    def close(self) -> None:
        """Ends everything."""
        self._door.close()
        self.reset()


class Line:
    """One connection through the proxy."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self.open = threading.Event()
        self.open.set()
        self.held: set[socket.socket] = set()
        self._over = False
        self._ends = (near, far)
        for source, sink in ((near, far), (far, near)):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if not self.open.is_set():
                    self.held.add(source)
                self.open.wait()
                sink.sendall(data)
        self.open.wait()  # nor is the end of a line forwarded
        with suppress(OSError):
            if not self._over:
                sink.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Resets it towards both ends."""
        self._over = True
        for end in self._ends:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            with suppress(OSError):
                end.shutdown(socket.SHUT_RD)  # wakes the pump, which would keep the socket
            end.close()
        self.open.set()
