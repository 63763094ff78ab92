"""A plan loaded and ready to run, through whichever of TensorRT's two interfaces the version has."""

from typing import Any, Dict, List, NamedTuple, Tuple

from engines.onboard.failure import Failed
from engines.onboard.trt_library import Log

_TYPES = {
    "FLOAT": "float32",
    "HALF": "float16",
    "INT8": "int8",
    "INT32": "int32",
    "BOOL": "bool",
    "UINT8": "uint8",
    "INT64": "int64",
}
_REBUILD = "build it again: edgeperf engines prune"


class Tensor(NamedTuple):
    """An input or output in the device's memory; ``dtype`` is its type as numpy has it."""

    name: str
    is_input: bool
    dtype: str
    shape: Tuple[int, ...]


class Engine(object):
    """An engine with one context; the interface of TensorRT 8.5 and later, where tensors go by their names.

    Raises Failed where there is no memory for it. `close` it before the memory that is bound to it is freed.
    """

    def __init__(self, trt: Any, log: Log, runtime: Any, engine: Any, inputs: Dict[str, List[int]]) -> None:
        self._trt, self._log, self._runtime, self._engine, self._inputs = trt, log, runtime, engine, inputs
        self._ones: Dict[str, Any] = {}
        self._context = engine.create_execution_context()
        if self._context is None:
            raise log.failed("TensorRT cannot make room to run the engine", "use a smaller batch")

    def tensors(self) -> List[Tensor]:
        """Returns inputs and outputs with their shapes; those of open inputs are set. Raises Failed.

        Left out are tensors that TensorRT wants on the processor: these are inputs that shapes are made of, filled
        with ones here, and outputs that are shapes.
        """
        import numpy

        engine, context, modes = self._engine, self._context, self._trt.TensorIOMode
        names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
        inputs = [name for name in names if engine.get_tensor_mode(name) == modes.INPUT]
        found = []
        for name in inputs + [name for name in names if name not in inputs]:
            dtype = self._dtype(name, engine.get_tensor_dtype(name))
            open_shape = tuple(engine.get_tensor_shape(name))
            if name in inputs:
                shape = self._shape(name, open_shape)
                if -1 in open_shape:
                    self._set(context.set_input_shape(name, shape), name, shape)
            else:  # known only after all inputs are
                shape = self._known(name, tuple(context.get_tensor_shape(name)))
            if engine.get_tensor_location(name) == self._trt.TensorLocation.HOST:
                self._ones[name] = numpy.ones(shape, dtype)
                self.bind({name: self._ones[name].ctypes.data})
            else:
                found.append(Tensor(name, name in inputs, dtype, shape))
        return found

    def close(self) -> None:
        """Gives everything back, in the order that TensorRT wants."""
        self._context = self._engine = self._runtime = None

    def bind(self, addresses: Dict[str, int]) -> None:
        """Says where the tensors lie."""
        for name, address in addresses.items():
            self._set(self._context.set_tensor_address(name, address), name, hex(address))

    def enqueue(self, stream: int) -> None:
        """Lets ``stream`` compute one batch. Raises Failed."""
        if not self._context.execute_async_v3(stream):
            raise self._log.failed("TensorRT cannot run the engine")

    def profile(self, profiler: Any) -> None:
        """Has the time of every layer reported from here on: slower, so never while anything is timed."""
        self._context.profiler = profiler

    def run_profiled(self, stream: int) -> None:
        """Computes one batch and reports its layers; whoever calls waits for ``stream``."""
        self.enqueue(stream)

    def description(self) -> str:
        """Returns the inspector's JSON, "" where this TensorRT has no inspector."""
        if not hasattr(self._engine, "create_engine_inspector"):
            return ""
        inspector = self._engine.create_engine_inspector()
        return str(inspector.get_engine_information(self._trt.LayerInformationFormat.JSON))

    def _shape(self, name: str, open_shape: Tuple[int, ...]) -> Tuple[int, ...]:
        return self._known(name, tuple(self._inputs.get(name, open_shape)) if -1 in open_shape else open_shape)

    def _known(self, name: str, shape: Tuple[int, ...]) -> Tuple[int, ...]:
        if any(size < 0 for size in shape):
            raise Failed("unsupported", "the shape of %s depends on what is computed: %s" % (name, list(shape)))
        return shape

    def _set(self, accepted: bool, name: str, what: Any) -> None:
        if not accepted:
            raise self._log.failed("TensorRT refuses %s for %s" % (what, name))

    def _dtype(self, name: str, dtype: Any) -> str:
        # An own table: tensorrt.nptype fails with numpy 1.24 and later up to TensorRT 8.5.
        for member, numpy_name in _TYPES.items():
            if dtype == getattr(self._trt.DataType, member, None):
                return numpy_name
        raise Failed("unsupported", "tensor %s is a %s, which numpy does not have" % (name, dtype))


class BoundEngine(Engine):
    """The interface of TensorRT up to 8.4, where tensors are bindings that go by their numbers."""

    def tensors(self) -> List[Tensor]:
        """Returns inputs and outputs with their shapes; those of open inputs are set. Raises Failed.

        Left out are tensors that are only shapes: inputs of that kind are ones.
        """
        import numpy

        engine, context = self._engine, self._context
        indices = range(engine.num_bindings)
        self._addresses = [0 for _ in indices]
        self._numbers = {engine.get_binding_name(index): index for index in indices}
        inputs = [index for index in indices if engine.binding_is_input(index)]
        found = []
        for index in inputs + [index for index in indices if index not in inputs]:
            name, open_shape = engine.get_binding_name(index), tuple(engine.get_binding_shape(index))
            if index in inputs:
                shape = self._shape(name, open_shape)
                if engine.is_shape_binding(index):
                    ones = numpy.ones(shape, int).reshape(-1).tolist()
                    self._set(context.set_shape_input(index, ones), name, ones)
                elif -1 in open_shape:
                    self._set(context.set_binding_shape(index, shape), name, shape)
            else:  # known only after all inputs are
                shape = self._known(name, tuple(context.get_binding_shape(index)))
            if not engine.is_shape_binding(index) or engine.is_execution_binding(index):
                found.append(Tensor(name, index in inputs, self._dtype(name, engine.get_binding_dtype(index)), shape))
        return found

    def bind(self, addresses: Dict[str, int]) -> None:
        """Says where the tensors lie."""
        for name, address in addresses.items():
            self._addresses[self._numbers[name]] = address

    def enqueue(self, stream: int) -> None:
        """Lets ``stream`` compute one batch. Raises Failed."""
        if not self._context.execute_async_v2(self._addresses, stream):
            raise self._log.failed("TensorRT cannot run the engine")

    def run_profiled(self, stream: int) -> None:
        """Computes one batch and reports its layers, which these versions do when it is done at once."""
        if not self._context.execute_v2(self._addresses):
            raise self._log.failed("TensorRT cannot run the engine")


def load(trt: Any, log: Log, path: str, inputs: Dict[str, List[int]]) -> Engine:
    """Returns the engine of the plan at ``path``; ``inputs`` are the shapes of those that it leaves open.

    Raises Failed for a plan of another version or device, and where memory is short. A device has to be there: without
    one TensorRT would crash here.
    """
    try:
        runtime = trt.Runtime(log.logger)
    except TypeError as error:  # what pybind11 makes of a null pointer
        raise log.failed("TensorRT cannot start its runtime", "run `edgeperf doctor`", "device") from error
    try:
        with open(path, "rb") as file:
            plan = file.read()
    except OSError as error:
        raise Failed("engine", "the engine cannot be read: %s" % error, "build it again") from error
    engine = runtime.deserialize_cuda_engine(plan)
    if engine is None or log.tells_of_device():
        raise log.failed("TensorRT cannot load %s" % path, _REBUILD)
    kind = Engine if hasattr(engine, "num_io_tensors") else BoundEngine
    return kind(trt, log, runtime, engine, inputs)
