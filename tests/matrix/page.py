"""docs/faults.md, made from the faults that there are and from what is expected of each command."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from edgeperf import faults
from remote.sim.faults import FAULTS
from tests.matrix.expected import Cell, Row
from tests.matrix.rig import BOARD, COMMANDS, MODE, SLACK_S, words_of
from tests.matrix.rows import ROWS

PATH = Path(__file__).parents[2] / "docs/faults.md"

_HEAD = """# Faults of simulated boards

What can go wrong on a simulated board, and what four commands make of it. This page is made by `python -m tests.matrix`
from the tests that try every cell of it; `edgeperf sim faults` prints the list of the version at hand.

## How to name them

`bench`, `exec`, `rails`, `maxperf`, `apply`, `status` and `doctor` take `--fault`, as often as wanted; so does a host
string, as `fault=`, and with it `edgeperf sim serve`:

    edgeperf bench alexnet --host sim:nano --fault throttle@12s
    edgeperf bench alexnet --host sim:nano,fault=rail-freeze@9s:500ms,fault=foreign-load@0::2.5
    edgeperf sim serve nano,fault=link-drop@30s:5s

START counts on the board's clock from when the board was opened, by a server from when it began to serve. It lasts FOR,
without it to the end. Both are seconds, or have a unit: `500ms`, `2m`. Several faults are several tables of a file, for
`--faults FILE`:

```toml
[[fault]]
name = "throttle"
start = "12s"      # a number is in seconds
for = "5s"         # without it the fault stays
argument = 2       # without it the fault's usual one
```

A fault befalls the board, not the result: files, programs, clocks and the line change, and whoever uses them finds out.
On any host but a simulated one the options end with 2.

## What there is
"""

_MATRIX = """
## What the commands do

Each cell has the exit code, the verdict of the result that is kept where one is, and the reasons for it: those of
[`verdict`](result.md#verdict), of `maxperf` what became of settings beside being applied, of `rails` what its summary
warns of; else what the error says. A second line is for a fault that begins in the middle of what the command measures;
without one it does the same as from the start.

The board is `sim:{board}`, with a governor that is nobody's default and its engine built before, unless the row says
otherwise. The commands are

    {commands}

After every one of them the settings are those that were found, but for what `maxperf` is to set; `edgeperf restore`
then brings those back too. Two exceptions: a restart makes the settings those of a start, and what a fault keeps from
being put back is named, with exit code 4 where nothing else went wrong, and put back by `restore` once the fault is
over. What was sampled or printed before the fault is kept, nothing goes on running on the board, and no command takes
more than {slack:.0f} s of the board's time longer than it does without the fault{slower}.

The same is tried on `sim:nano`, where few cells differ: it counts no over-current, tells of a clamped memory only by
the rate that it runs at, and has sensors too coarse to tell stale values from a steady load.
"""


def page() -> str:
    """Returns the whole page."""
    slow = [row for row in ROWS if row.slack_s]
    slower = "".join(f"; {row.name} is given up {row.slack_s / 60:.0f} minutes later" for row in slow)
    commands = "\n    ".join(_typed(command) for command in COMMANDS)
    matrix = _MATRIX.format(board=BOARD, commands=commands, slack=SLACK_S, slower=slower)
    rows = sorted(ROWS, key=lambda row: list(FAULTS).index(row.name))
    there_are, cells = _table(_LIST, map(_listed, faults.kinds())), _table(_CELLS, map(_row, rows))
    return "\n".join([_HEAD, *there_are, matrix, *cells, ""])


_LIST = ("fault", "what happens", "ARGUMENT where none is given")
_CELLS = ("fault", *(f"`{command}`" for command in COMMANDS))


def _typed(command: str) -> str:
    return " ".join(word for word in ["edgeperf", *words_of(command)] if word not in ("--json", "--jsonl", "--quiet"))


def _listed(kind: faults.Kind) -> Sequence[str]:
    usual = kind.usual_argument
    return f"`{kind.form}`", kind.summary, "" if usual is None else f"{usual:g}" if isinstance(usual, float) else usual


def _row(row: Row) -> Sequence[str]:
    return _fault(row), *("<br>".join(_told(row.cells(command))) for command in COMMANDS)


def _fault(row: Row) -> str:
    name, _, rest = row.fault.partition("@")
    notes = [f"`{' '.join(words)}`" for words in dict.fromkeys(row.words.values())]
    notes = [note.format(named=MODE, mode="a profile with a mode") for note in notes] + ["no engine yet"] * row.cold
    notes += ["from the start"] * row.once
    return f"`{name}{'@START' + rest if rest else ''}`" + (f"<br>({', '.join(notes)})" if notes else "")


def _told(cells: Sequence[Cell]) -> Iterable[str]:
    first, *rest = cells
    yield _cell(first)
    yield from (f"middle: {_cell(cell)}" for cell in rest if cell != first)


def _cell(cell: Cell) -> str:
    words = ", ".join(cell.remarks) or cell.said
    return " ".join(filter(None, (str(cell.code), cell.verdict, words)))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    yield from (f"| {' | '.join(row)} |" for row in rows)
