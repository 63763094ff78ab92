"""Big files over SSH: their progress is told, and a cut connection goes on where it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote import ssh
from remote.access import Access
from remote.types import Blob
from tests.ssh.conftest import board
from tests.ssh.sshd import Sshd

SIZE = 5 << 20


class Cut(Exception):
    """The connection goes away."""


def test_a_file_goes_on_where_it_was_cut_and_is_skipped_when_it_is_there(server: Sshd, tmp_path: Path) -> None:
    host, tree = board(server, "free")
    file = tmp_path / "model.onnx"
    file.write_bytes(bytes(range(251)) * (SIZE // 251))
    size = file.stat().st_size
    told: list[int] = []

    def progress(name: str, there: int, whole: int) -> None:
        assert (name, whole) == ("model.onnx", size)
        told.append(there)
        if len(told) == 2:
            raise Cut

    blob = Blob("model.onnx", path=file)
    with ssh.connect(host, Access(progress=progress)) as transport, pytest.raises(Cut):
        transport.put(blob)
    with ssh.connect(host, Access(progress=progress)) as transport:
        path = transport.put(blob)
    assert told == sorted(told)
    assert told[2] > told[1]
    assert told[-1] == size
    assert (tree / path.lstrip("/")).read_bytes() == file.read_bytes()
    count = len(told)
    with ssh.connect(host, Access(progress=progress)) as transport:
        assert transport.put(blob) == path
    assert len(told) == count
