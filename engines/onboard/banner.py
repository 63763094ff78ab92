"""The version of TensorRT, in the lines with which trtexec begins and ends, or in the name of its library."""

import os
import re

from engines.onboard.cache import Disk

_BANNER = re.compile(r"^&&&& [A-Z]+ TensorRT\.trtexec \[TensorRT v(\d+)\](?: \[b(\d+)\])?", re.MULTILINE | re.ASCII)
_FOLDERS = ("/usr/lib/aarch64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/lib", "/usr/local/lib")
_LIBRARY = re.compile(r"libnvinfer\.so\.(\d+\.\d+\.\d+)$", re.ASCII)


def version_in(text: str) -> str:
    """Returns the version that trtexec's output names, as "8.2.1" or with the build "10.13.3.9".

    Returns "" where it names none: that of TensorRT 7 does not.
    """
    match = _BANNER.search(text)
    version = of_token(match.group(1)) if match else ""
    return "%s.%s" % (version, match.group(2)) if match and version and match.group(2) else version


def of_token(digits: str) -> str:
    """Returns "8.2.1" for "8201" and "10.3.0" for "100300"; "" for what is no such number.

    The number is 1000 major + 100 minor + patch below version 10, 10000 major + 100 minor + patch from there on.
    """
    if not re.match(r"(?:[5-9]\d{3}|[1-9]\d{5})$", digits, re.ASCII):
        return ""
    number = int(digits)
    major, rest = divmod(number, 1000 if number < 10000 else 10000)
    return "%d.%d.%d" % (major, rest // 100, rest % 100)


def of_library(name: str) -> str:
    """Returns "7.1.3" for a file called libnvinfer.so.7.1.3, and "" for any other."""
    match = _LIBRARY.search(name)
    return match.group(1) if match else ""


def installed_version(files: Disk) -> str:
    """Returns the version of the library that programs here find, "" where there is none."""
    own = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    found = (of_library(name) for folder in own + list(_FOLDERS) for name in files.names(folder))
    return next(filter(None, found), "")
