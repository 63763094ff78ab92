"""The CUDA runtime library through ctypes: nothing has to be installed, every JetPack brings it."""

import ctypes
import glob
from typing import Any, Callable, Dict, List

from engines.onboard.cuda import CudaError

NAMES = ("libcudart.so",) + tuple("libcudart.so." + release for release in ("13", "12", "11.0", "10.2", "10.0"))
FOLDERS = ("/usr/local/cuda/lib64", "/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib")

_pointer, _int, _size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
_unsigned = ctypes.c_uint
# What a function returns through pointers, and what it is given. The pointers come first, except where noted.
_FUNCTIONS: Dict[str, Any] = {
    "cudaGetDeviceCount": ([_int], []),
    "cudaRuntimeGetVersion": ([_int], []),
    "cudaDriverGetVersion": ([_int], []),
    "cudaDeviceGetAttribute": ([_int], [_int, _int]),
    "cudaMemGetInfo": ([_size, _size], []),
    "cudaSetDeviceFlags": ([], [_unsigned]),
    "cudaMalloc": ([_pointer], [_size]),
    "cudaFree": ([], [_pointer]),
    "cudaMallocHost": ([_pointer], [_size]),
    "cudaFreeHost": ([], [_pointer]),
    "cudaMemcpyAsync": ([], [_pointer, _pointer, _size, _int, _pointer]),
    "cudaStreamCreateWithFlags": ([_pointer], [_unsigned]),
    "cudaStreamDestroy": ([], [_pointer]),
    "cudaStreamSynchronize": ([], [_pointer]),
    "cudaStreamWaitEvent": ([], [_pointer, _pointer, _unsigned]),
    "cudaEventCreateWithFlags": ([_pointer], [_unsigned]),
    "cudaEventDestroy": ([], [_pointer]),
    "cudaEventRecord": ([], [_pointer, _pointer]),
    "cudaEventSynchronize": ([], [_pointer]),
    "cudaEventElapsedTime": ([ctypes.c_float], [_pointer, _pointer]),
    "cudaStreamBeginCapture": ([], [_pointer, _int]),
    "cudaStreamEndCapture": ([_pointer], [_pointer]),
    "cudaGraphInstantiate": ([_pointer], [_pointer, _pointer, _pointer, _size]),
    "cudaGraphLaunch": ([], [_pointer, _pointer]),
    "cudaGraphDestroy": ([], [_pointer]),
    "cudaGraphExecDestroy": ([], [_pointer]),
}
_POINTER_LAST = ("cudaStreamEndCapture",)


def connect() -> Callable[..., Any]:
    """Returns the way to CUDA. Raises OSError where the library is not to be found."""
    return caller(_library())


def caller(library: Any) -> Callable[..., Any]:
    """Returns the way to CUDA through ``library``, a loaded libcudart."""

    def call(name: str, *given: Any) -> Any:
        makes, takes = _FUNCTIONS[name]
        if name == "cudaGraphInstantiate":
            # Releases up to 11 have three more arguments, later ones flags: zeros are right for both.
            given += (None, None, 0)
        made = [kind() for kind in makes]
        pointers = [ctypes.byref(value) for value in made]
        values = [kind(given[n]) for n, kind in enumerate(takes)]
        arguments = values + pointers if name in _POINTER_LAST else pointers + values
        number = getattr(library, name)(*arguments)
        if number:
            raise CudaError(number, _name(library, number))
        results = [value.value for value in made]
        return results[0] if len(results) == 1 else results

    return call


def _name(library: Any, number: int) -> str:
    library.cudaGetErrorName.restype = ctypes.c_char_p
    name = library.cudaGetErrorName(ctypes.c_int(number)) or b"unknown"
    return str(name.decode("ascii", "replace"))


def _library() -> Any:
    wanted = list(NAMES)
    for folder in FOLDERS:
        wanted += sorted(glob.glob(folder + "/libcudart.so*"), reverse=True)
    refusals: List[str] = []
    for path in wanted:
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            refusals.append(str(error))
    raise OSError("libcudart.so is neither on the library path nor in %s (%s)" % (FOLDERS[0], refusals[0]))
