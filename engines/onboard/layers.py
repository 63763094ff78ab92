"""The layers of an engine, as TensorRT's inspector and profiler tell of them. Pure."""

import json
from typing import Any, Dict, List

# In the order in which they are looked for: "bf16" has "f16" in it, "Int32" is not "Int8".
_PRECISIONS = (
    ("bf16", ("bf16", "bfloat16")),
    ("fp16", ("fp16", "half", "float16")),
    ("fp32", ("fp32", "float32", "float")),
    ("fp8", ("fp8",)),
    ("fp4", ("fp4",)),
    ("int8", ("int8",)),
    ("int32", ("int32",)),
    ("int64", ("int64",)),
    ("int4", ("int4",)),
    ("bool", ("bool",)),
)


def rows(text: str, seconds: Dict[str, float]) -> List[Dict[str, Any]]:
    """Returns the rows of the ``layers`` event: ``name``, ``type``, ``precision`` and ``seconds``.

    ``text`` is the inspector's JSON ("" where there is none), ``seconds`` the time of layers by their name. What is
    not told is "" and None. A layer's precision is that of what it reads first, else of what it makes first. Raises
    ValueError for text that is not the inspector's.
    """
    told = [_row(layer) for layer in _layers(text)]
    names = {row["name"] for row in told}
    told += [{"name": name, "type": "", "precision": ""} for name in seconds if name not in names]
    return [dict(row, seconds=seconds.get(row["name"])) for row in told]


def _layers(text: str) -> List[Any]:
    if not text.strip():
        return []
    told = json.loads(text)
    layers = told.get("Layers") if isinstance(told, dict) else None
    if not isinstance(layers, list):
        raise ValueError("the engine's description has no list of layers: %s" % text[:200])
    return layers


def _row(layer: Any) -> Dict[str, Any]:
    if not isinstance(layer, dict):  # at a low verbosity there are only names
        return {"name": str(layer), "type": "", "precision": ""}
    tensors = _tensors(layer.get("Inputs")) + _tensors(layer.get("Outputs"))
    precisions = [found for found in map(_precision, tensors) if found]
    return {
        "name": str(layer.get("Name", "")),
        "type": str(layer.get("LayerType", "")),
        "precision": precisions[0] if precisions else "",
    }


def _tensors(told: Any) -> List[Dict[str, Any]]:
    return [tensor for tensor in told if isinstance(tensor, dict)] if isinstance(told, list) else []


def _precision(tensor: Dict[str, Any]) -> str:
    """Reads "Half", "Row major linear FP16 format" and the like; the key is called differently from 11 on."""
    for key in sorted(tensor):
        if "datatype" in key.lower().replace(" ", ""):
            words = str(tensor[key]).lower()
            for precision, signs in _PRECISIONS:
                if any(sign in words for sign in signs):
                    return precision
    return ""
