"""Bytes that recovery cuts off the log are kept in a file of their own: `cut/<physical offset>`.

As a rule they are what a power cut left of messages that nobody was told are stored. Should they
ever be more, somebody can look.
"""

from itertools import count
from pathlib import Path

from roquet.disk import Disk, is_full, make_safe_directory
from roquet.store.commit_log import CommitLog
from roquet.store.files.layout import file_name


def keep_aside(disk: Disk, log: CommitLog, directory: Path, end: int) -> Path | None:
    """Copy what is written behind `end`, zeros left out as holes; where it is now.

    None if the disk is full: a store that does not start would be worse. Raises OSError.
    """
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
        # A part would be taken for all of it.
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
