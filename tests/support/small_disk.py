"""A disk that is small enough to be filled: a file system in memory, which only root may mount."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def why_no_small_disk() -> str | None:
    return None if os.geteuid() == 0 else "only root may mount a small disk"


@contextmanager
def small_disk(place: Path, size: int) -> Iterator[Path]:
    place.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place))
    try:
        yield place
    finally:
        subprocess.run(("umount", str(place)), check=True)


def enlarge(disk: Path, size: int) -> None:
    """While it is in use."""
    _mount("-o", f"remount,size={size}", str(disk))


def _mount(*words: str) -> None:
    subprocess.run(("mount", *words), check=True)
