"""Which files of the log may go: by age at certain hours, or at once when the disk fills up."""

from collections.abc import Sequence
from enum import Enum, IntEnum
from typing import Final, NamedTuple

import msgspec

# At most this many files go in one round; the next one comes soon.
FILES_PER_ROUND: Final = 10
# Once the disk counts as full, this many percent more have to be free before it no longer does.
FULL_DISK_MARGIN: Final = 2
_HOUR_MS: Final = 3_600_000


class SpaceLimits(msgspec.Struct, frozen=True):
    """Percent of the disk in use: from where old files go, any file goes, nothing is taken."""

    clean_old: int
    clean_any: int
    full: int


class Pressure(Enum):
    NONE = "none"
    # Files that are old enough go, whatever the hour.
    OLD_FILES = "old files"
    # The oldest files go, whatever their age.
    ANY_FILES = "any files"


def pressure_of(used_percent: int, limits: SpaceLimits, *, clean_by_force: bool) -> Pressure:
    if used_percent > limits.clean_any and clean_by_force:
        return Pressure.ANY_FILES
    if used_percent > min(limits.clean_old, limits.clean_any):
        return Pressure.OLD_FILES
    return Pressure.NONE


class Alarm(IntEnum):
    """How far a disk has filled up; the higher, the worse."""

    NONE = 0
    FILLING = 1  # old files go at any hour
    NEARLY_FULL = 2  # the oldest files go if they may, or it will soon be full
    FULL = 3  # nothing is taken


def alarm_of(used_percent: int, limits: SpaceLimits, *, is_disk_full: bool) -> Alarm:
    if is_disk_full:
        return Alarm.FULL
    if used_percent > limits.clean_any:
        return Alarm.NEARLY_FULL
    if used_percent > limits.clean_old:
        return Alarm.FILLING
    return Alarm.NONE


def is_full(used_percent: int, limits: SpaceLimits, *, was_full: bool) -> bool:
    """Whether messages have to be refused; not back and forth with every one of them."""
    if was_full:
        return used_percent > limits.full - FULL_DISK_MARGIN
    return used_percent > limits.full


class FilesToForget(NamedTuple):
    """How many files, from the oldest on, may go, and how many of them before their time."""

    file_count: int
    young_count: int = 0


def files_to_forget(
    last_timestamps: Sequence[int],
    now_ms: int,
    *,
    reserved_hours: int,
    pressure: Pressure,
    is_hour: bool,
) -> FilesToForget:
    """There is a timestamp for each file but the last, which always stays.

    It says when the last message of the file was stored.
    """
    if pressure is Pressure.NONE and not is_hour:
        return FilesToForget(0)
    count = young_count = 0
    for timestamp in last_timestamps[:FILES_PER_ROUND]:
        is_old = timestamp + reserved_hours * _HOUR_MS <= now_ms
        if not is_old and pressure is not Pressure.ANY_FILES:
            break
        count += 1
        young_count += not is_old
    return FilesToForget(count, young_count)
