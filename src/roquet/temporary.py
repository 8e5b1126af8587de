"""Directories that are removed with the process that created them, however it ends.

    roquet-XXXX/.owner   locked while the process runs

A process that is killed cannot clean up. The next one does: a directory with our prefix that
belongs to this user and is not locked was left by a process that has ended.

Servers without a directory of their own use it, so nothing is loaded before it is needed:
`tempfile` and what packs files, with `shutil`, would take most of a megabyte.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

_PREFIX: Final = "roquet-"
_OWNER: Final = ".owner"
_NAME_SIZE: Final = 6  # of the random part, in bytes
_BLOCK_SIZE: Final = 512  # in which the kernel counts what a file takes


class Leftover(NamedTuple):
    """A directory that was removed."""

    path: Path
    size: int


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """A new directory, removed at the end of the block. Raises OSError if it cannot be created.

    What cannot be removed, because other processes still write there, is left to the next start.
    """
    directory = _place() / f"{_PREFIX}{os.urandom(_NAME_SIZE).hex()}"
    directory.mkdir(0o700)
    try:
        unlocked = directory / f"{_OWNER}.new"
        descriptor = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Only now: a file that exists and is not locked means that its owner has ended.
            unlocked.rename(directory / _OWNER)
            yield directory
        finally:
            os.close(descriptor)
    finally:
        _remove(directory)


def remove_leftovers() -> list[Leftover]:
    """Removes what ended processes of this user left; what cannot be removed stays."""
    found = []
    with os.scandir(_place()) as entries:
        names = [Path(each.path) for each in entries if each.name.startswith(_PREFIX)]
    for path in names:
        size = _removed_size(path)
        if size is not None:
            found.append(Leftover(path, size))
    return found


def _removed_size(path: Path) -> int | None:
    """None for a directory whose owner runs, or that has none."""
    try:
        if path.is_symlink() or path.stat().st_uid != os.geteuid():
            return None
        descriptor = os.open(path / _OWNER, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        size = sum(each.lstat().st_blocks * _BLOCK_SIZE for each in path.rglob("*"))
        _remove(path)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return size


def _place() -> Path:
    return Path(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108  Its names are random, its modes ours.


def _remove(directory: Path) -> None:
    from shutil import rmtree  # noqa: PLC0415  See above.

    rmtree(directory, ignore_errors=True)
    if directory.exists():
        (directory / _OWNER).touch()
