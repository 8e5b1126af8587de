"""Unpacking tar archives as data: nothing outside of the directory, no devices, no owners.

That is what `filter="data"` of `tarfile` does. It came with Python 3.11.4 and Debian 12 has 3.11.2,
so what it does is done here for older ones: a member is refused, or extracted as a changed copy.
"""

import os
import tarfile
from copy import copy
from pathlib import Path
from typing import Final

HAS_DATA_FILTER: Final = hasattr(tarfile, "data_filter")
_FILE_MODES: Final = 0o755
_READ_AND_WRITE: Final = 0o600
_EXECUTE: Final = 0o111
_OWNER_EXECUTES: Final = 0o100


class UnsafeArchive(Exception):
    """A member would be written, or lead, outside of the directory, or is no data."""

    def __init__(self, member: str, reason: str) -> None:
        super().__init__(f"{member!r} {reason}")
        self.member = member
        self.reason = reason


def unpack(archive: Path, directory: Path) -> None:
    """All members, into a directory that exists. Raises UnsafeArchive.

    What comes before the refused member stays there.
    """
    with tarfile.open(archive) as opened:
        if not HAS_DATA_FILTER:
            extract_checked(opened, directory)
            return
        try:
            opened.extractall(directory, filter="data")
        except tarfile.FilterError as error:
            raise UnsafeArchive(error.tarinfo.name, str(error)) from error


def extract_checked(archive: tarfile.TarFile, directory: Path) -> None:
    """The way of Pythons without the filter. Raises UnsafeArchive."""
    for member in archive:
        # Checked one by one: a link that has just been made decides where the next member goes.
        archive.extract(_as_data(member, directory), directory)


def _as_data(member: tarfile.TarInfo, directory: Path) -> tarfile.TarInfo:
    data = copy(member)
    data.name = member.name.lstrip("/")
    if not _is_inside(directory / data.name, directory):
        raise UnsafeArchive(member.name, "would be extracted outside of the directory")
    data.mode = _data_mode(member)
    if member.issym() or member.islnk():
        _check_link(data, directory)
    # Those of this process: older Pythons do not know "leave it as it is".
    data.uid, data.gid = os.geteuid(), os.getegid()
    data.uname = data.gname = ""
    return data


def _data_mode(member: tarfile.TarInfo) -> int:
    """Neither high bits nor write permissions for others."""
    if member.isdir() or member.issym():
        return _FILE_MODES
    if not (member.isreg() or member.islnk()):
        raise UnsafeArchive(member.name, "is a special file")
    mode = member.mode & _FILE_MODES
    if not mode & _OWNER_EXECUTES:
        mode &= ~_EXECUTE
    return mode | _READ_AND_WRITE


def _check_link(member: tarfile.TarInfo, directory: Path) -> None:
    # A symbolic link starts where it lies, a hard link at the top of the archive.
    start = (directory / member.name).parent if member.issym() else directory
    if Path(member.linkname).is_absolute():
        raise UnsafeArchive(member.name, "is a link to an absolute path")
    if not _is_inside(start / member.linkname, directory):
        raise UnsafeArchive(member.name, "is a link to a path outside of the directory")


def _is_inside(path: Path, directory: Path) -> bool:
    return path.resolve().is_relative_to(directory.resolve())
