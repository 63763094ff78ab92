"""What goes wrong is told: what, where and what to do next, with the exit code that the README names."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.command import edgeperf, tiny_model

OLD = ("--host", "sim:tx1@r23.1", "--toolchain", "caffe")
USAGE = [
    (("bench", "alexnt"), ("alexnt", "alexnet")),
    (("bench", "gogglenet"), ("gogglenet", "googlenet")),
    (("models", "show", "alexnt"), ("alexnt", "alexnet")),
    (("bench", "no-such-model.onnx"), ("no-such-model.onnx",)),
    (("bench", "алекс; $(reboot) `x`"), ("алекс; $(reboot) `x`",)),
    (("bench",), ("MODEL", "--help")),
    (("bench", "alexnet", "--batch", "0"), ("--batch", "1 to")),
    (("bench", "alexnet", "--batch", "-1"), ("--batch",)),
    (("bench", "alexnet", "--batch", "x"), ("--batch",)),
    (("bench", "alexnet", "--clock", "gpu"), ("gpu", "KEY=VALUE")),
    (("bench", "alexnet", "--clock", "dla=1GHz"), ("dla", "cpu, gpu, emc")),
    (("bench", "alexnet", "--clock", "gpu=fast"), ("gpu", "fast", "844.8MHz")),
    (("bench", "alexnet", "--clock", "gpu=9999GHz"), ("9999GHz",)),
    (("bench", "alexnet", "--profile", "maxprf"), ("maxprf", "maxperf")),
    (("apply", "nothing-like-it", "--host", "sim:tx1"), ("nothing-like-it", "whitepaper-690")),
    (("profiles", "show", "maxprf"), ("maxprf", "maxperf")),
    (("status", "--profile", "maxprf"), ("maxprf", "maxperf")),
    (("bench", "alexnet", "--host", "sim:tx9"), ("tx9", "tx1")),
    (("boards", "show", "tx9"), ("tx9", "tx1")),
    (("bench", "alexnet", "--host", "sim:tx1@r99"), ("r99", "r23.1")),
    (("bench", "alexnet", "--host", "sim:tx1,colour=red"), ("colour=red", "seed=")),
    (("bench", "alexnet", "--host", "sim:tx1,seed=x"), ("seed", "x")),
    (("bench", "alexnet", "--host", "sim:tx1@r23.1,cores=5"), ("cores", "1 to 4")),
    (("bench", "alexnet", "--host", ""), ("host", "sim:tx1")),
    (("maxperf", "--host", ""), ("host", "sim:tx1")),
    (("maxperf",), ("--host",)),
    (("restore",), ("--host",)),
    (("bench", "alexnet", "--fp16", "--fp32"), ("fp16", "fp32")),
    (("bench", "alexnet", "--precision", "int8"), ("int8", "fp16")),
    (("bench", "alexnet", "--toolchain", "torch"), ("torch", "tensorrt")),
    (("bench", "alexnet", "--host", "sim:tx1@r32.7", "--toolchain", "caffe"), ("caffe", "32.7", "--toolchain")),
    (("bench", "alexnet", "--host", "sim:tx1@r24.2", "--toolchain", "tensorrt"), ("tensorrt", "24.2", "caffe")),
    (("build", "alexnet", *OLD), ("caffe",)),
    (("bench", "alexnet", "--duration", "-1s"), ("-1s", "10s")),
    (("bench", "alexnet", "--duration", "nan"), ("nan", "10s")),
    (("bench", "alexnet", "--duration", "99999999h"), ("--duration", "24h")),
    (("bench", "alexnet", "--rail-rate", "0"), ("0", "20Hz")),
    (("bench", "alexnet", "--rail-rate", "1GHz"), ("--rail-rate", "200Hz")),
    (("bench", "alexnet", "--iterations", "0"), ("--iterations",)),
    (("results", "show", "last"), ("last", "results list")),
    (("no-such-command",), ("no-such-command", "--help")),
    (("bench", "alexnet", "--no-such-option"), ("--no-such-option", "--help")),
    (("bench", "alexnet", "alexnet"), ("alexnet", "--help")),
]


def refused(code: int, *words: str) -> str:
    """Returns what a command that has to fail says on stderr."""
    ran = edgeperf(*words)
    assert ran.code == code, ran
    assert ran.out == ""
    assert "Traceback" not in ran.err
    lines = [line for line in ran.err.splitlines() if not line.startswith(("no --host", "running", "measuring"))]
    assert lines[0].startswith("error: ")
    return "\n".join(lines)


@pytest.mark.parametrize(("words", "said"), USAGE, ids=[" ".join(words) for words, _ in USAGE])
def test_wrong_usage_exits_2_and_names_what_and_what_to_do(words: tuple[str, ...], said: tuple[str, ...]) -> None:
    text = refused(2, *words)
    for part in said:
        assert part in text


def test_an_unknown_host_exits_3() -> None:
    assert "no-such-board" in refused(3, "bench", "alexnet", "--host", "no-such-board")
    assert "user@192.0.2.1:22" in refused(3, "maxperf", "--host", "user@192.0.2.1:22")


def test_a_network_that_does_not_fit_exits_5_and_asks_for_a_smaller_batch() -> None:
    text = refused(5, "bench", "googlenet", "--fp32", "--batch", "128", *OLD)
    assert "memory" in text
    assert "batch" in text
    assert edgeperf("bench", "alexnet", "--fp32", "--batch", "128", *OLD).code == 0


@pytest.mark.parametrize("content", [b"", b"\0" * 64, b"not a model\n", bytes(range(256)) * 40])
def test_a_file_that_is_no_model_exits_2_and_is_named(tmp_path: Path, content: bytes) -> None:
    model = tmp_path / "broken.onnx"
    model.write_bytes(content)
    assert str(model) in refused(2, "bench", str(model))


def test_a_model_that_is_cut_short_exits_2(tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "cut.onnx")
    model.write_bytes(model.read_bytes()[:-20])
    assert str(model) in refused(2, "bench", str(model))


@pytest.mark.skipif(os.name != "posix", reason="POSIX has these files")
def test_a_device_or_a_folder_is_no_model(tmp_path: Path) -> None:
    assert "/dev/null" in refused(2, "bench", "/dev/null")
    assert str(tmp_path) in refused(2, "bench", str(tmp_path))


def test_a_models_fixed_batch_is_named(tmp_path: Path) -> None:
    model = str(tiny_model(tmp_path / "four.onnx", batch=4))
    assert "4" in refused(2, "bench", model, "--batch", "3")
    few = ("--duration", "2s")  # so small a network does thousands of batches a second
    assert edgeperf("bench", model, "--batch", "4", *few).code == 0
    assert edgeperf("bench", str(tiny_model(tmp_path / "any.onnx", batch="N")), "--batch", "3", *few).code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[gpu]\nrat = 'max'\n", ("rat", "rate")),
        ("[gpus]\nrate = 'max'\n", ("gpus", "gpu")),
        ("[gpu\n", ("TOML", "line 1")),
        ("[gpu]\nrate = []\n", ("gpu.rate", "844.8MHz")),
        ("inherits = 'nothing'\n", ("nothing",)),
    ],
)
def test_a_wrong_profile_exits_2_and_names_file_and_key(tmp_path: Path, text: str, said: tuple[str, ...]) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    for words in (("apply", str(file), "--host", "sim:tx1"), ("bench", "alexnet", "--profile", str(file))):
        told = refused(2, *words)
        assert str(file) in told or "nothing" in said
        for part in said:
            assert part in told


def test_a_result_that_cannot_be_written_is_known_before_the_run(tmp_path: Path) -> None:
    for path in (tmp_path / "missing" / "result.json", tmp_path, Path("/proc/result.json")):
        text = refused(2, "bench", "alexnet", "--out", str(path))
        assert str(path) in text
        assert "--out" in text


def test_a_results_folder_that_cannot_be_made_is_known_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    assert "--out" in refused(2, "bench", "alexnet")


@pytest.mark.parametrize("text", ["", "garbage", "[]", "{}", '{"schema": 1, "board": "tx1", "release": "r32.7"}'])
def test_a_damaged_state_file_exits_2_and_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    state = tmp_path / "twin.json"
    state.write_text(text)
    assert str(state) in refused(2, "maxperf", "--host", f"sim:tx1@r32.7,state={state}")
    assert state.read_text() == text


def test_the_state_of_another_release_is_named(tmp_path: Path) -> None:
    state = tmp_path / "twin.json"
    assert edgeperf("maxperf", "--host", f"sim:tx1@r23.1,state={state}").code == 0
    text = refused(2, "status", "--host", f"sim:tx1@r32.7,state={state}")
    assert "tx1@r23.1" in text
    assert edgeperf("restore", "--host", f"sim:tx1@r23.1,state={state}").code == 0


def test_a_state_file_in_a_missing_folder_exits_3(tmp_path: Path) -> None:
    assert "folder" in refused(3, "status", "--host", f"sim:tx1,state={tmp_path / 'missing' / 'twin.json'}")


@pytest.mark.parametrize("text", ["host = 7\n", "hots = 'sim:tx1'\n", "host = \n"])
def test_a_broken_configuration_exits_2_and_names_the_file(text: str) -> None:
    from edgeperf import config

    file = config.config_file()
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert str(file) in refused(2, "bench", "alexnet")
    assert str(file) in refused(2, "maxperf")


def test_the_host_comes_from_the_option_then_the_environment_then_the_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from edgeperf import config

    file = config.config_file()
    file.parent.mkdir(parents=True)
    file.write_text('host = "sim:tx1@r23.1"\n')
    assert "23.1" in edgeperf("maxperf").out
    monkeypatch.setenv("EDGEPERF_HOST", "sim:tx1@r24.2")
    assert "24.2" in edgeperf("maxperf").out
    assert "28.2" in edgeperf("maxperf", "--host", "sim:tx1@r28.2").out


COMMAND = [sys.executable, "-c", "from edgeperf.cli import main; main()"]


@contextmanager
def _closed_pipe() -> Iterator[int]:
    """A pipe whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.skipif(os.name != "posix", reason="signals and pipes of POSIX")
@pytest.mark.parametrize("words", [("bench", "alexnet", "--json", "-q"), ("models", "show", "googlenet")])
def test_a_reader_that_has_seen_enough_is_no_error(words: tuple[str, ...]) -> None:
    with _closed_pipe() as writer:
        done = subprocess.run([*COMMAND, *words], stdout=writer, stderr=subprocess.PIPE, timeout=30)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has this file")
@pytest.mark.parametrize("words", [("--version",), ("models", "list")])
def test_an_output_that_cannot_be_written_is_told_without_a_traceback(words: tuple[str, ...]) -> None:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*COMMAND, *words], stdout=full, stderr=subprocess.PIPE, timeout=30, env=buffered)
    told = "error: the output could not be written: No space left on device\n  see where it goes to\n"
    assert (done.returncode, done.stderr.decode()) == (1, told)


def test_output_into_a_pipe_has_no_colours() -> None:
    done = subprocess.run([*COMMAND, "status"], capture_output=True, timeout=30, stdin=subprocess.DEVNULL)
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout + done.stderr


WORDS = st.sampled_from(
    [
        "",
        "0",
        "-1",
        "nan",
        "1e9",
        "x",
        "é;$(x)",
        "10s",
        "2",
        "gpu=max",
        "fp16",
        "a=b=c",
        "sim:tx1",
        "alexnet",
        "maxperf",
    ]
)
OPTIONS = st.sampled_from(
    [
        *("--batch", "--clock", "--duration", "--warmup", "--iterations", "--rail-rate", "--idle", "--seed", "--host"),
        *("--precision", "--profile", "--toolchain", "--fp16", "--fp32", "--json", "--quiet", "--require-lock"),
    ]
)


@settings(max_examples=100)
@given(
    command=st.sampled_from(["bench", "build", "apply", "maxperf", "restore", "status", "doctor", "models", "results"]),
    rest=st.lists(st.one_of(WORDS, OPTIONS, st.tuples(OPTIONS, WORDS).map("=".join)), max_size=5),
)
def test_no_command_line_makes_a_bug(command: str, rest: list[str]) -> None:
    ran = edgeperf(command, *rest)
    assert ran.code in (0, 2, 3, 4, 5, 7, 8), ran
    if ran.code not in (0, 7, 8):
        assert ran.out == ""
        assert ran.err


@settings(max_examples=60)
@given(
    host=st.text(max_size=20) | st.text(max_size=20).map("sim:tx1,".__add__) | st.text(max_size=9).map("sim:".__add__)
)
def test_no_host_string_makes_a_bug(host: str) -> None:
    from edgeperf import config
    from remote.errors import HostError, UsageError

    with suppress(UsageError, HostError):
        config.require(host)
