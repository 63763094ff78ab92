"""Makes the deterministic zips that run on a board, named by their hash."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from functools import cache
from importlib import resources

from remote import boards
from remote.types import Blob

_STUB = "import sys\nfrom {module} import main\nsys.exit(main(sys.argv))\n"


def bundle(files: Mapping[str, bytes]) -> bytes:
    """Returns a zip of ``files``, equal for equal content whenever and wherever it is made."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, (2015, 11, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o600 << 16
            archive.writestr(info, files[name])
    return packed.getvalue()


def sources(package: str) -> dict[str, bytes]:
    """Returns the Python files of a package, and the empty ones that make it importable, by path in the zip."""
    folder = resources.files(package)
    path = package.replace(".", "/")
    found = {f"{path}/{file.name}": file.read_bytes() for file in folder.iterdir() if file.name.endswith(".py")}
    parts = path.split("/")
    found.update({"/".join(parts[:depth]) + "/__init__.py": b"" for depth in range(1, len(parts) + 1)})
    return found


def runnable(package: str, module: str, data: Mapping[str, bytes]) -> bytes:
    """Returns a zip that ``python3 FILE`` runs: ``main(argv)`` of ``module`` in ``package``."""
    main = _STUB.format(module=f"{package}.{module}").encode()
    return bundle(
        {"__main__.py": main, **sources(package), **{f"{package.replace('.', '/')}/{k}": v for k, v in data.items()}}
    )


@cache
def build_id() -> str:
    """Returns the hash of the on-board programs and the boards' tables, which must be the same at both ends."""
    digest = hashlib.sha256(json.dumps(boards.table(), sort_keys=True).encode())
    for name, content in sorted(sources("remote.onboard").items()):
        digest.update(name.encode() + b"\0" + content + b"\0")
    return digest.hexdigest()[:16]


def programs() -> Blob:
    """Returns the zip with ``agent`` and ``clockd``."""
    tables = json.dumps({"build": build_id(), "boards": boards.table()}, sort_keys=True).encode()
    return Blob("edgeperf-onboard.zip", runnable("remote.onboard", "main", {"boards.json": tables}))
