from __future__ import annotations

from pathlib import Path

import pytest

from engines.onboard.banner import of_library, of_token, version_in
from engines.trtexec.version import Version, from_banner, from_text, known
from remote.errors import EngineError

FACTS = Path(__file__).resolve().parents[4] / "shared" / "facts" / "trtexec"


@pytest.mark.parametrize(
    ("token", "version"),
    [
        ("7103", "7.1.3"),
        ("8001", "8.0.1"),
        ("8201", "8.2.1"),
        ("8502", "8.5.2"),
        ("8602", "8.6.2"),
        ("100300", "10.3.0"),
        ("101303", "10.13.3"),
        ("110100", "11.1.0"),
    ],
)
def test_the_token_is_read_by_the_rule_of_its_time(token: str, version: str) -> None:
    assert of_token(token) == version


@pytest.mark.parametrize("token", ["", "820", "82010", "0082", "1003000", "x8201", "8201 "])
def test_a_number_that_is_no_token_is_no_version(token: str) -> None:
    assert of_token(token) == ""


def test_the_banner_may_have_a_build_and_that_of_version_7_has_nothing() -> None:
    assert version_in("&&&& RUNNING TensorRT.trtexec [TensorRT v101303] [b9] # trtexec --help") == "10.13.3.9"
    assert version_in("&&&& RUNNING TensorRT.trtexec # trtexec --help") == ""
    assert from_banner("noise\n&&&& PASSED TensorRT.trtexec [TensorRT v8201] # trtexec\n") == Version(8, 2, 1)
    assert from_banner("nothing of the kind") is None


def test_the_library_file_names_its_version() -> None:
    assert of_library("libnvinfer.so.7.1.3") == "7.1.3"
    assert [of_library(name) for name in ("libnvinfer.so.7", "libnvinfer_plugin.so.7.1.3", "libnvinfer.so")] == [""] * 3


@pytest.mark.skipif(not FACTS.is_dir(), reason="the folder of facts is not beside this checkout")
def test_every_recorded_banner_is_read() -> None:
    lines = (FACTS / "trt_banners.txt").read_text("utf-8").splitlines()
    found = [str(from_banner(line)) for line in lines if line.startswith("&&&&")]
    assert found == ["8.0.1", "8.2.1", "8.5.2", "10.3.0", "10.13.3.9", "10.16.2.10", "11.1.0.106"]


@pytest.mark.parametrize("text", ["7.1.3", "7.2", "8.0.1", "8.6.1", "10.0.1", "10.16.2.10", "11.4.1"])
def test_the_versions_that_were_read_are_known(text: str) -> None:
    assert known(from_text(text)).release == tuple(map(int, text.split(".")[:2]))


@pytest.mark.parametrize(
    ("text", "way_out"),
    [
        ("5.1.6", "--toolchain caffe"),
        ("6.0.1", "--toolchain caffe"),
        ("7.0.0", "--toolchain caffe"),
        ("7.3.0", "newer edgeperf"),
        ("8.7.0", "newer edgeperf"),
        ("9.0.1", "newer edgeperf"),
        ("12.0.0", "newer edgeperf"),
    ],
)
def test_any_other_version_is_refused_with_a_way_out(text: str, way_out: str) -> None:
    with pytest.raises(EngineError, match=text) as refusal:
        known(from_text(text))
    assert way_out in refusal.value.hint


@pytest.mark.parametrize("text", ["", "8", "v8.2", "8.2.1.8.1", "8.x"])
def test_text_that_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(EngineError, match="no version of TensorRT"):
        from_text(text)
