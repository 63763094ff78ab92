"""One contract for every way to CUDA: what is asked of the interface holds by pycuda, cuda-python and ctypes alike."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from engines.onboard import cuda_ctypes
from engines.onboard.cuda import WAYS, Cuda, CudaError, choose, explained
from engines.onboard.failure import Failed
from tests.engines.trt.fake_gpu import BYTES_PER_SECOND, ERRORS, Gpu
from tests.engines.trt.rig import cuda

FAKES = {"pycuda": "pycuda", "cuda-python": "cuda-python", "cudart": "cuda-python", "ctypes": "ctypes"}
"""The fakes, and the way that each stands for: cuda-python's module has moved."""

GRAPHS = [fake for fake in FAKES if fake != "pycuda"]


@contextmanager
def opened(fake: str, gpu: Gpu, name: str | None = None) -> Iterator[Cuda]:
    with cuda(fake, gpu), closing(choose(name)) as found:
        yield found


def refused(fake: str, gpu: Gpu, name: str | None = None) -> Failed:
    with pytest.raises(Failed) as caught, opened(fake, gpu, name):
        pass
    return caught.value


@contextmanager
def several(gpu: Gpu, *fakes: str) -> Iterator[None]:
    """All of ``fakes`` are installed."""
    from tests.engines.trt.fake_cuda import modules

    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        stack.enter_context(cuda("ctypes" if "ctypes" in fakes else "", gpu))
        for fake in fakes:
            for module, content in modules(fake, gpu).items():
                if content is not None:
                    patch.setitem(sys.modules, module, content)
        yield


# --- which way --------------------------------------------------------------------------------------------------------


def test_what_the_user_installed_comes_first() -> None:
    assert WAYS == ("pycuda", "cuda-python", "ctypes")
    for first in range(len(WAYS)):
        with several(Gpu(), *WAYS[first:]), closing(choose(None)) as found:
            assert found.name == WAYS[first]


@pytest.mark.parametrize("forced", WAYS)
def test_a_way_that_is_named_is_taken(forced: str) -> None:
    with several(Gpu(), *WAYS), closing(choose(forced)) as found:
        assert found.name == forced


def test_a_way_that_sees_no_device_is_passed_over() -> None:
    blind, seeing = Gpu(devices=0), Gpu()
    from tests.engines.trt.fake_cuda import modules

    with cuda("ctypes", seeing), pytest.MonkeyPatch.context() as patch:
        for name, module in modules("pycuda", blind).items():
            patch.setitem(sys.modules, name, module)
        with closing(choose(None)) as found:
            assert found.name == "ctypes"


@pytest.mark.parametrize("way", WAYS)
def test_a_forced_way_that_is_not_there_says_so(way: str) -> None:
    failed = refused("", Gpu(), way)
    assert failed.kind == "missing"
    assert way in failed.what


def test_without_any_way_all_are_named() -> None:
    failed = refused("", Gpu())
    assert failed.kind == "missing"
    assert all(way in failed.what for way in WAYS)
    assert failed.hint


def test_a_way_that_does_not_exist_is_refused_with_the_ways_that_do() -> None:
    failed = refused("ctypes", Gpu(), "opencl")
    assert failed.kind == "missing"
    assert all(way in failed.hint for way in WAYS)


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fake", FAKES)
def test_no_device_is_said_before_anything_else_is_done(fake: str) -> None:
    gpu = Gpu(devices=0)
    failed = refused(fake, gpu)
    assert failed.kind == "device"
    assert "doctor" in failed.hint
    assert not {"cudaMalloc", "cudaStreamCreateWithFlags"} & set(gpu.calls)


@pytest.mark.parametrize("fake", FAKES)
@pytest.mark.parametrize("number", [35, 100, 999])
def test_a_cuda_that_does_not_start_sends_to_the_doctor(fake: str, number: int) -> None:
    failed = refused(fake, Gpu(faults={"cudaGetDeviceCount": number}))
    assert failed.kind == "device"
    assert "doctor" in failed.hint
    if fake != "pycuda":  # which has texts of its own and no numbers
        assert str(number) in failed.what
        assert ERRORS[number] in failed.what


def test_a_device_file_that_may_not_be_opened_is_a_matter_of_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    node = tmp_path / "nvmap"
    node.touch()
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may open anything
    failed = explained("cudaGetDeviceCount", CudaError(999, "cudaErrorUnknown"), [str(node)])
    assert failed.kind == "permission"
    assert str(node) in failed.what
    assert "video" in failed.hint
    assert "render" in failed.hint


@pytest.mark.parametrize("fake", FAKES)
def test_memory_that_is_short_is_said_as_such(fake: str) -> None:
    with opened(fake, Gpu(free_bytes=1000)) as found, pytest.raises(Failed) as caught:
        found.malloc(2000)
    assert caught.value.kind == "out_of_memory"
    assert "batch" in caught.value.hint


# --- what works -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fake", FAKES)
def test_the_device_is_described(fake: str) -> None:
    gpu = Gpu(capability=(8, 7), multiprocessors=8, runtime=12060)
    with opened(fake, gpu) as found:
        assert found.name == FAKES[fake]
        assert (found.device_count(), found.compute_capability(), found.multiprocessors()) == (1, (8, 7), 8)
        assert (found.version(), found.driver_version(), found.integrated()) == ("12.6", "12.6", True)
        assert found.memory() == (1 << 32, 1 << 32)


@pytest.mark.parametrize("fake", FAKES)
def test_numbers_travel_there_and_back(fake: str) -> None:
    with opened(fake, Gpu()) as found:
        stream, there, back = found.stream(), found.host_array(64), found.host_array(64)
        there[:], back[:] = np.arange(64), 0
        pointer = found.malloc(64)
        found.to_device(pointer, there, stream)
        found.to_host(back, pointer, stream)
        assert not back.any(), "nothing may be relied on before it was waited for"
        found.finish(stream)
        assert back.tolist() == list(range(64))


@pytest.mark.parametrize("fake", FAKES)
def test_events_tell_the_time_between_them(fake: str) -> None:
    gpu = Gpu()
    with opened(fake, gpu) as found:
        stream, first, last = found.stream(), found.event(spin=True), found.event(spin=True)
        found.record(first, stream)
        gpu.launch(int(stream), lambda: None, 0.25)
        found.record(last, stream)
        found.wait(last)
        assert found.elapsed_s(first, last) == pytest.approx(0.25)


@pytest.mark.parametrize("fake", FAKES)
@pytest.mark.parametrize("spin", [False, True])
def test_events_wait_as_asked(fake: str, spin: bool) -> None:
    gpu = Gpu()
    with opened(fake, gpu) as found:
        found.schedule(spin)
        found.event(spin)
        assert gpu.most_events == [not spin]
        assert gpu.schedule == (None if fake == "pycuda" else 1 if spin else 4)


@pytest.mark.parametrize("fake", FAKES)
def test_a_stream_waits_for_an_event_of_another(fake: str) -> None:
    gpu = Gpu()
    with opened(fake, gpu) as found:
        slow, quick = found.stream(), found.stream()
        begun, ready, done = (found.event(spin=False) for _ in range(3))
        order: list[str] = []
        found.record(begun, quick)
        gpu.launch(int(slow), lambda: order.append("slow"), 1.0)
        found.record(ready, slow)
        found.hold(quick, ready)
        gpu.launch(int(quick), lambda: order.append("quick"), 0.5)
        found.record(done, quick)
        found.finish(quick)
        assert order == ["slow", "quick"]
        assert found.elapsed_s(begun, done) == pytest.approx(1.5)


@pytest.mark.parametrize("fake", FAKES)
def test_a_copy_takes_its_time_on_its_stream(fake: str) -> None:
    with opened(fake, Gpu()) as found:
        stream, array, pointer = found.stream(), found.host_array(1 << 20), found.malloc(1 << 20)
        first, last = found.event(spin=False), found.event(spin=False)
        found.record(first, stream)
        found.to_device(pointer, array, stream)
        found.record(last, stream)
        found.wait(last)
        assert found.elapsed_s(first, last) == pytest.approx((1 << 20) / BYTES_PER_SECOND)


@pytest.mark.parametrize("fake", GRAPHS)
def test_what_was_captured_is_done_at_every_launch_and_not_before(fake: str) -> None:
    gpu = Gpu()
    with opened(fake, gpu) as found:
        stream, done = found.stream(), []
        found.begin_capture(stream)
        gpu.launch(int(stream), lambda: done.append(1), 0.1)
        graph = found.end_capture(stream)
        found.finish(stream)
        assert not done
        for _ in range(3):
            found.launch(graph, stream)
        found.finish(stream)
        assert done == [1, 1, 1]
    assert not gpu.left()


def test_pycuda_has_no_graphs_and_says_so() -> None:
    with opened("pycuda", Gpu()) as found, pytest.raises(Failed, match="pycuda"):
        found.begin_capture(found.stream())


@pytest.mark.parametrize("fake", FAKES)
def test_all_that_was_made_is_given_back(fake: str) -> None:
    gpu = Gpu()
    with opened(fake, gpu) as found:
        stream, array, pointer = found.stream(), found.host_array(10), found.malloc(10)
        found.event(spin=False)
        found.to_device(pointer, array, stream)
        del stream, array
    assert not gpu.left()
    assert gpu.free_bytes == 1 << 32


# --- the library by itself --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["libcudart.so", "libcudart.so.12"])
def test_the_library_is_found_under_its_numbered_names(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    from tests.engines.trt.fake_cuda import Library

    tried: list[str] = []

    def load(name: str) -> Any:
        tried.append(name)
        if name != "libcudart.so.10.2":
            raise OSError(f"{name}: cannot open shared object file")
        return Library(Gpu())

    monkeypatch.setattr(ctypes, "CDLL", load)
    assert cuda_ctypes.connect()("cudaRuntimeGetVersion") == 10020
    assert missing in tried


def test_a_package_called_cuda_that_is_another_one_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with cuda("ctypes", Gpu()):
        monkeypatch.setitem(sys.modules, "cuda", ModuleType("cuda"))
        with closing(choose(None)) as found:
            assert found.name == "ctypes"
