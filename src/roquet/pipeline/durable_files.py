"""Files and directories that appear whole and survive a power cut: the pipeline's only place.

Not `roquet.state_file`, whose files belong to one server: these are written by drivers and
executors at the same time and read by other programs. So modes are left to the umask, a file can be
created by only one of several writers, and there is neither a backup nor a checksum in it.
Everything here raises OSError.
"""

import ctypes
import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

from roquet.pipeline.errors import BadLake

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
# Errors of systems without this call, and of file systems that cannot do it.
_UNSUPPORTED: Final = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV)


def create_once(path: Path, content: bytes) -> None:
    """Create a file with this content, or none at all. Raises FileExistsError.

    Of several writers one succeeds: a link fails where a rename would replace.
    """
    with _draft(path, content) as draft:
        path.hardlink_to(draft)
    sync_directory(path.parent)


def replace_file(path: Path, content: bytes) -> None:
    """Readers find the old content or the new one, never a part of it."""
    with _draft(path, content) as draft:
        draft.replace(path)
    sync_directory(path.parent)


def put_in_place(draft: Path, target: Path) -> None:
    """Rename a file or directory that is complete, in one step."""
    sync_file(draft)
    draft.rename(target)
    sync_directory(target.parent)


def exchange_directories(first: Path, second: Path) -> None:
    """Two directories change places at once: no reader finds one missing, or both the same.

    Linux can do that, Python does not offer it. Raises BadLake where the file system cannot.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        raise _unsupported(second)
    paths = os.fsencode(first), os.fsencode(second)
    if library.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE):
        number = ctypes.get_errno()
        if number in _UNSUPPORTED:
            raise _unsupported(second)
        raise OSError(number, os.strerror(number), str(second))


def make_directories(path: Path) -> None:
    """With parents; they may exist."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    sync_directories(each.parent for each in missing)


def sync_directories(paths: Iterable[Path]) -> None:
    for path in sorted(set(paths)):
        sync_directory(path)


def sync_directory(path: Path) -> None:
    _sync(path, os.O_DIRECTORY)


def sync_file(path: Path) -> None:
    _sync(path)


def _sync(path: Path, flags: int = 0) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _draft(path: Path, content: bytes) -> Iterator[Path]:
    """A hidden file in the same directory, synced, and removed at the end if it is still there."""
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def _unsupported(path: Path) -> BadLake:
    return BadLake(
        f"the file system of {path} cannot exchange two directories at once, so files cannot be"
        " compacted there without readers missing messages or seeing them twice; ext4, XFS and"
        " Btrfs can"
    )
