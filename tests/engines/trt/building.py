"""Loggers, builder, its configuration, and the network under construction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.engines.trt.surface import Object
from tests.engines.trt.tensors import Invalid


@dataclass
class Machine:
    """What the stand-in runs on, what goes wrong there, and what was done. ``gpu`` is the one behind the fake CUDA.

    ``most_workspace_bytes``: a build with more fails for want of memory. ``fast_fp16`` False: an FP16 build runs in
    FP32. ``pace_s``: GPU time of one batch. ``refusal``: why no build succeeds, "" if they do.
    """

    gpu: Any = None
    capability: tuple[int, int] = (5, 3)
    model: str = "board"
    fast_fp16: bool = True
    most_workspace_bytes: int | None = None
    pace_s: float = 0.002
    refusal: str = ""
    builds: list[dict[str, Any]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def touched(self) -> None:
        """TensorRT crashes without a device; whoever uses it looks first."""
        if self.gpu is not None and self.gpu.broken:
            raise AssertionError("TensorRT was touched where CUDA has no device: a real one ends the process")


class ILogger(Object):
    """A subclass of the user's says what TensorRT has to say."""

    def _do_log(self, severity: Any, msg: str) -> None:
        raise RuntimeError('Tried to call pure virtual function "ILogger::log"')

    def _tell(self, word: str, text: str) -> None:
        self._trt.machine.said.append(f"[{word}] {text}")
        self.log(getattr(self._trt.severity, word), text)


class Logger(ILogger):
    """Prints what is serious enough."""

    def _start(self, min_severity: Any = None) -> None:
        self._min_severity = min_severity

    def _do_log(self, severity: Any, msg: str) -> None:
        if int(severity) <= int(self._min_severity if self._min_severity is not None else 2):
            print(f"[TRT] {msg}")


class Builder(Object):
    """Makes a network and its configuration, and builds one with the other."""

    def _start(self, logger: Any) -> None:
        self._trt.machine.touched()
        self._logger = logger

    def _get_platform_has_fast_fp16(self) -> bool:
        return bool(self._trt.machine.fast_fp16)

    def _get_platform_has_tf32(self) -> bool:
        return bool(self._trt.machine.capability >= (8, 0))

    def _get_num_DLA_cores(self) -> int:
        return 0

    def _do_create_network(self, flags: int = 0) -> Any:
        known = {int(m): n for n, m in self._trt.types["NetworkDefinitionCreationFlag"].__members__.items()}
        asked = {known.get(bit, f"unknown flag {bit}") for bit in range(32) if flags >> bit & 1}
        if any(name.startswith("unknown") for name in asked):
            self._logger._tell("ERROR", f"createNetworkV2: Error Code 3: API Usage Error ({', '.join(sorted(asked))})")
        implicit = "EXPLICIT_BATCH" not in asked and hasattr(type(self), "max_batch_size")
        typed = "STRONGLY_TYPED" in asked or self._trt.always_typed
        return self._trt.new("INetworkDefinition", self._logger, implicit=implicit, typed=typed)

    def _do_create_builder_config(self) -> Any:
        return self._trt.new("IBuilderConfig", self._logger)

    def _do_create_optimization_profile(self) -> Any:
        return self._trt.new("IOptimizationProfile")

    def _do_is_network_supported(self, network: Any, config: Any) -> bool:
        return True

    def _do_build_serialized_network(self, network: Any, config: Any) -> Any:
        plan = self._trt.compile(network, config, self._logger)
        return None if plan is None else self._trt.new("IHostMemory", plan)

    def _do_build_engine(self, network: Any, config: Any) -> Any:
        plan = self._trt.compile(network, config, self._logger)
        return None if plan is None else self._trt.new("ICudaEngine", plan, self._logger)

    _do_build_engine_with_config = _do_build_engine


class IBuilderConfig(Object):
    """TF32 is allowed unless cleared; without a workspace there is none up to 8.2, and all there is later."""

    def _start(self, logger: Any) -> None:
        self._logger, self._cache = logger, None
        self._on = {"TF32"} & set(self._trt.types["BuilderFlag"].__members__)
        self._pools: dict[str, int] = {}
        self._profiles: list[Any] = []
        verbosity: Any = self._trt.types.get("ProfilingVerbosity")
        self._profiling_verbosity = getattr(verbosity, "LAYER_NAMES_ONLY", None)

    def _word(self, flag: Any) -> str:
        return str(flag).split(".")[-1]

    def _do_set_flag(self, flag: Any) -> None:
        self._on.add(self._word(flag))

    def _do_clear_flag(self, flag: Any) -> None:
        self._on.discard(self._word(flag))

    def _do_get_flag(self, flag: Any) -> bool:
        return self._word(flag) in self._on

    def _set_max_workspace_size(self, value: int) -> None:
        self._pools["WORKSPACE"] = value

    def _get_max_workspace_size(self) -> int:
        return self._pools.get("WORKSPACE", 0)

    def _do_set_memory_pool_limit(self, pool: Any, pool_size: int) -> None:
        self._pools[self._word(pool)] = pool_size

    def _do_get_memory_pool_limit(self, pool: Any) -> int:
        return self._pools.get(self._word(pool), 0)

    def _do_add_optimization_profile(self, profile: Any) -> int:
        if not profile._shapes:
            return -1
        self._profiles.append(profile)
        return len(self._profiles) - 1

    def _get_num_optimization_profiles(self) -> int:
        return len(self._profiles)

    def _do_create_timing_cache(self, serialized_timing_cache: Any) -> Any:
        return self._trt.new("ITimingCache", bytes(serialized_timing_cache))

    def _do_set_timing_cache(self, cache: Any, ignore_mismatch: bool) -> bool:
        if cache._data and not cache._data.startswith(self._trt.origin) and not ignore_mismatch:
            self._logger._tell(
                "ERROR", "setTimingCache: Error Code 1: the timing cache is of another device or version"
            )
            return False
        self._cache = cache
        return True

    def _do_get_timing_cache(self) -> Any:
        return self._cache


class ITimingCache(Object):
    """Remembers builds: every one adds to it."""

    def _start(self, data: bytes) -> None:
        self._data = data

    def _do_serialize(self) -> Any:
        return self._trt.new("IHostMemory", self._data or self._trt.origin)

    def _do_reset(self) -> bool:
        self._data = b""
        return True


class IOptimizationProfile(Object):
    """The shapes of inputs whose dimensions are open."""

    def _start(self) -> None:
        self._shapes: dict[str, tuple[Any, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._shapes)

    def _do_set_shape(self, input: str, min: Any, opt: Any, max: Any) -> None:
        if not all(a <= b <= c for a, b, c in zip(min, opt, max, strict=True)):
            raise RuntimeError("Shape provided for min, opt and max do not agree")
        self._shapes[input] = tuple(opt)


class INetworkDefinition(Object):
    """Layers in the order in which they were added."""

    def _start(self, logger: Any, implicit: bool, typed: bool) -> None:
        self._logger, self._implicit, self._typed = logger, implicit, typed
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._layers: list[Any] = []
        self._onnx: bytes | None = None
        self._name = "Unnamed Network 0"

    def __len__(self) -> int:
        return len(self._layers)

    def __getitem__(self, index: int) -> Any:
        return self._layers[index]

    def _get_num_layers(self) -> int:
        return len(self._layers)

    def _get_num_inputs(self) -> int:
        return len(self._inputs)

    def _get_num_outputs(self) -> int:
        return len(self._outputs)

    def _get_has_implicit_batch_dimension(self) -> bool:
        return bool(self._implicit)

    def _do_get_layer(self, index: int) -> Any:
        return self._layers[index]

    def _do_get_input(self, index: int) -> Any:
        return self._inputs[index]

    def _do_get_output(self, index: int) -> Any:
        return self._outputs[index]

    def _do_get_flag(self, flag: Any) -> bool:
        return "STRONGLY_TYPED" in str(flag) and self._typed

    def _do_add_input(self, name: str, dtype: Any, shape: Any) -> Any:
        tensor = self._trt.new("ITensor", name, tuple(shape), dtype)
        self._inputs.append(tensor)
        return tensor

    def _do_mark_output(self, tensor: Any) -> None:
        tensor._output = True
        self._outputs.append(tensor)

    def _do_unmark_output(self, tensor: Any) -> None:
        tensor._output = False
        self._outputs.remove(tensor)

    def _add(self, kind: str, inputs: list[Any], **fields: Any) -> Any:
        try:
            layer = self._trt.new(kind, f"(Unnamed Layer* {len(self._layers)})", inputs, **fields)
        except Invalid as error:
            self._logger._tell("ERROR", f"Error Code 4: Internal Error ({error})")
            return None
        self._layers.append(layer)
        return layer

    def _do_add_convolution_nd(
        self, input: Any, num_output_maps: int, kernel_shape: Any, kernel: Any, bias: Any = None
    ) -> Any:
        shape = tuple(kernel_shape)
        return self._add(
            "IConvolutionLayer",
            [input],
            num_output_maps=num_output_maps,
            kernel_size_nd=shape,
            kernel=self._weights(kernel),
            bias=self._weights(bias),
        )

    def _weights(self, given: Any) -> Any:
        """Where signatures were not recorded arrays come as they are."""
        return given if given is None or hasattr(given, "_array") else self._trt.types["Weights"](given)

    def _do_add_pooling_nd(self, input: Any, type: Any, window_size: Any) -> Any:
        return self._add("IPoolingLayer", [input], type=type, window_size_nd=tuple(window_size))

    def _do_add_lrn(self, input: Any, window: int, alpha: float, beta: float, k: float) -> Any:
        return self._add("ILRNLayer", [input], window_size=window, alpha=alpha, beta=beta, k=k)

    def _do_add_activation(self, input: Any, type: Any) -> Any:
        return self._add("IActivationLayer", [input], type=type)

    def _do_add_concatenation(self, inputs: list[Any]) -> Any:
        return self._add("IConcatenationLayer", list(inputs))

    def _do_add_softmax(self, input: Any) -> Any:
        return self._add("ISoftMaxLayer", [input])

    def _do_add_shuffle(self, input: Any) -> Any:
        return self._add("IShuffleLayer", [input])

    def _do_add_scale(self, input: Any, mode: Any, shift: Any = None, scale: Any = None, power: Any = None) -> Any:
        return self._do_add_scale_nd(input, mode, shift, scale, power, max(0, len(input._dims()) - 3))

    def _do_add_scale_nd(
        self, input: Any, mode: Any, shift: Any = None, scale: Any = None, power: Any = None, channel_axis: int = 1
    ) -> Any:
        numbers = {"shift": self._weights(shift), "scale": self._weights(scale), "power": self._weights(power)}
        return self._add("IScaleLayer", [input], mode=mode, channel_axis=channel_axis, **numbers)

    def _do_add_elementwise(self, input1: Any, input2: Any, op: Any) -> Any:
        return self._add("IElementWiseLayer", [input1, input2], op=op)

    def _do_add_matrix_multiply(self, input0: Any, op0: Any, input1: Any, op1: Any) -> Any:
        return self._add("IMatrixMultiplyLayer", [input0, input1], op0=op0, op1=op1)

    def _do_add_fully_connected(self, input: Any, num_outputs: int, kernel: Any, bias: Any = None) -> Any:
        numbers = {"kernel": self._weights(kernel), "bias": self._weights(bias)}
        return self._add("IFullyConnectedLayer", [input], num_output_channels=num_outputs, **numbers)

    def _do_add_reduce(self, input: Any, op: Any, axes: int, keep_dims: bool) -> Any:
        return self._add("IReduceLayer", [input], op=op, axes=axes, keep_dims=keep_dims)

    def _do_add_padding_nd(self, input: Any, pre_padding: Any, post_padding: Any) -> Any:
        ends = {"pre_padding_nd": tuple(pre_padding), "post_padding_nd": tuple(post_padding)}
        return self._add("IPaddingLayer", [input], **ends)

    def _do_add_constant(self, shape: Any, weights: Any) -> Any:
        return self._add("IConstantLayer", [], shape_given=tuple(shape), values=self._weights(weights))

    def _do_add_identity(self, input: Any) -> Any:
        return self._add("IIdentityLayer", [input])

    def _do_add_cast(self, input: Any, to_type: Any) -> Any:
        return self._add("ICastLayer", [input], to_type=to_type)


BUILDING: dict[str, type] = {
    kind.__name__: kind
    for kind in (ILogger, Logger, Builder, IBuilderConfig, ITimingCache, IOptimizationProfile, INetworkDefinition)
}
