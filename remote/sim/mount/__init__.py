"""The twin as a file system and as a place to log in to. Needs Linux with FUSE."""

from remote.sim.mount.folder import mounted
from remote.sim.mount.root import Root, can_read, rooted

__all__ = ["Root", "can_read", "mounted", "rooted"]
