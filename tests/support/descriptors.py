"""Which files this process has open: a count of all would see those of other threads, too."""

from contextlib import suppress
from pathlib import Path


def open_below(root: Path) -> int:
    """How many descriptors it has of files and directories in `root`, removed ones among them."""
    return sum(target.startswith(f"{root}/") for target in _targets())


def open_count(path: str) -> int:
    """How many descriptors it has of this very file."""
    return _targets().count(path)


def _targets() -> list[str]:
    targets = []
    for link in list(Path("/proc/self/fd").iterdir()):
        # The one that lists them is gone by now, and so may be those of other threads.
        with suppress(FileNotFoundError):
            targets.append(str(link.readlink()))
    return targets
