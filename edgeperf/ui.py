"""What a person sees: results on stdout, everything else on stderr. The only importer of rich."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from remote.errors import EdgeperfError


class Ui:
    """Speaks to the user. ``quiet`` leaves only results, warnings and errors.

    ``unheard`` is whether the reader of stdout has gone.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.unheard = False

    def result(self, text: str) -> None:
        """Prints what the command was asked for."""
        try:
            print(text, flush=True)
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # takes what Python still holds
            if isinstance(error, BrokenPipeError):  # the reader has seen enough, as in `edgeperf ... | head`
                self.unheard = True
                return
            raise EdgeperfError(f"the output could not be written: {error.strerror}", "see where it goes to") from error

    def passed(self, text: str, *, aside: bool) -> None:
        """Passes on a line that a command on a board printed; ``aside`` goes beside the result, to stderr."""
        if aside:
            _aside(text)
        else:
            self.result(text)

    def note(self, text: str) -> None:
        """Tells something that may be left out."""
        if not self.quiet:
            _aside(text)

    def warn(self, text: str) -> None:
        """Tells something that must not be missed."""
        _aside(f"warning: {text}")

    def error(self, error: EdgeperfError) -> None:
        """Tells what went wrong, where, and what to do next."""
        first, *rest = str(error).splitlines() or [type(error).__name__]
        _aside("\n".join([f"error: {first}", *(f"  {line}" for line in rest)]))

    def confirm(self, question: str) -> bool:
        """Asks yes or no on the terminal; no answer is a no."""
        _aside(f"{question} [y/N] ", end="")
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def progress(self, name: str, there: int, size: int) -> None:
        """Shows how much of a file is on the board, in one line of a terminal."""
        end = "\n" if there >= size else ""
        _aside(f"\r{name}: {there / size:4.0%}", end=end)

    @contextmanager
    def live(self) -> Iterator[Callable[[str], None]]:
        """Yields what shows a page in the terminal, in place of the one before; the last one stays."""
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        with Live(console=Console(highlight=False), auto_refresh=False) as shown:
            yield lambda text: shown.update(Text(text), refresh=True)

    @contextmanager
    def phase(self, text: str, expected_s: float) -> Iterator[None]:
        """Shows that something takes its time: a spinner in a terminal, else one line. Short phases show nothing."""
        if self.quiet or expected_s <= 1.0:
            yield
        elif sys.stderr.isatty():
            from rich.console import Console

            with Console(stderr=True).status(text):
                yield
        else:
            self.note(f"{text} ...")
            yield


def _aside(text: str, end: str = "\n") -> None:
    """Prints to stderr; where that is not there any more, as with a terminal that is closed, the work goes on."""
    with suppress(OSError):
        print(text, end=end, file=sys.stderr, flush=True)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Returns a table as text; columns in ``right`` are aligned to the right. Nothing is cut off when piped."""
    lines = [[" ".join(cell.splitlines()) for cell in line] for line in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
