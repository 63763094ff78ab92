"""Entry of the copy that a sudo rule names: runs `clockd` and what belongs to it, and nothing else.

Whoever may run this file as root must gain no more than the knobs of its own table: no other folder, no `agent`.
"""

import sys

from remote.onboard.main import main as start

_OPTIONS = {"clockd": ("--beat", "--silence", "--grace", "--guard"), "guard": (), "relay": ("--to",)}


def allowed(words: "list[str]") -> bool:
    """Says whether this program with these options may run."""
    if not words or words[0] not in _OPTIONS or len(words) % 2 == 0:
        return False
    if words[0] == "relay" and words[1:] != ["--to", "clockd"]:
        return False
    names, values = words[1::2], words[2::2]
    return all(name in _OPTIONS[words[0]] for name in names) and not any(value.startswith("-") for value in values)


def main(argv: "list[str]") -> int:
    """Runs as `remote.onboard.main` does, or refuses."""
    if not allowed(argv[1:]):
        sys.stderr.write("this program sets clocks and takes no such orders\n")
        return 2
    return start(argv)
