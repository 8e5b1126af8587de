"""Files of a lake that survive a power cut. Readers of a lake are other people: modes are open.

Raises nothing but OSError.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4


def create_whole(path: Path, content: bytes) -> None:
    """Make a file with this content, or none at all. Raises FileExistsError.

    Of several who make it at once, one does. A link does that: a rename would replace.
    """
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(draft)
    finally:
        draft.unlink(missing_ok=True)
    sync_directory(path.parent)


def make_directories(path: Path) -> None:
    """With parents; they may exist."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    sync_directories(each.parent for each in missing)


def sync_directories(paths: Iterable[Path]) -> None:
    for path in sorted(set(paths)):
        sync_directory(path)


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
