"""The key under which an engine is kept: a hash of what it is made of, never a name."""

import hashlib
import json
from typing import Any, Dict


def engine_key(content: Dict[str, Any]) -> str:
    """Returns 32 hex digits, equal for equal content."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode("utf-8")).hexdigest()[:32]
