"""Directories for stores that are made and thrown away by the thousand."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_IN_MEMORY = Path("/dev/shm")


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """In memory where that is possible: what would survive is known to the faulty disk, and
    the real one below it only costs time.
    """
    if not _IN_MEMORY.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=_IN_MEMORY) as name:
        yield Path(name)
