"""Backs up the bytes that recovery cuts off the log.

    cut/<physical offset>         what followed the last good record
    divergent/<physical offset>   what only a former master had, and no other replica

As a rule the former is what a power cut left of messages that were never acknowledged. Should they
ever be more, an operator can look.
"""

from itertools import count
from pathlib import Path

from roquet.disk import Disk, is_full, make_safe_directory
from roquet.store.commit_log import CommitLog
from roquet.store.errors import DiskFull
from roquet.store.files.layout import StoreLayout, file_name


def back_up_cut(
    disk: Disk, log: CommitLog, layout: StoreLayout, end: int, *, is_divergent: bool
) -> Path | None:
    """Copy what is written after `end`; the path of the copy.

    None if the disk is full: a store that does not start would be worse. But divergent bytes are
    whole messages: raises DiskFull if they cannot be kept, or OSError.
    """
    directory = layout.divergent if is_divergent else layout.cut
    path = _copy(disk, log, directory, end)
    if path is None and is_divergent:
        raise DiskFull(f"no space in {directory} to back up what is cut off the log at {end}")
    return path


def _copy(disk: Disk, log: CommitLog, directory: Path, end: int) -> Path | None:
    """Zeros become holes. None if the disk is full. Raises OSError."""
    written_end = log.written_end(end)
    try:
        make_safe_directory(disk, directory)
        path = _new_path(disk, directory / file_name(end))
        descriptor = disk.create(path, written_end - end)
    except OSError as error:
        if not is_full(error):
            raise
        return None
    try:
        for physical_offset, data in log.written_between(end, written_end):
            disk.write(descriptor, physical_offset - end, data)
        disk.sync(descriptor)
    except OSError as error:
        # A part would be mistaken for all of it.
        disk.remove(path)
        if not is_full(error):
            raise
        return None
    finally:
        disk.close(descriptor)
    disk.sync_directory(directory)
    return path


def _new_path(disk: Disk, path: Path) -> Path:
    names = (
        path if number == 1 else path.with_name(f"{path.name}.{number}") for number in count(1)
    )
    return next(each for each in names if not disk.exists(each))
