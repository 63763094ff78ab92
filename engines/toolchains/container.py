"""Running inside a container on the board, for boards that keep TensorRT there."""

from __future__ import annotations

from engines.toolchains.conversation import Request


def wrapped(argv: tuple[str, ...], request: Request) -> tuple[str, ...]:
    """Returns ``argv``, in docker with NVIDIA's runtime where a container was asked for.

    The user's cache folder is the only folder of the board that it sees, under the same path. It has no network.
    """
    image, cache = request.options.container, request.facts.cache
    if not image:
        return argv
    mount = ("--volume", f"{cache}:{cache}")
    return (
        *("docker", "run", "--rm", "--init", "--interactive", "--runtime", "nvidia", "--network", "none"),
        *(*mount, "--entrypoint", argv[0], image, *argv[1:]),
    )
