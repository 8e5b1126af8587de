"""Removes files of the log, expired ones or any on a full disk, and what was built from them.

Which files may be removed, and when messages are refused, is decided by pure functions.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import Enum, IntEnum
from typing import Final, NamedTuple, final

import msgspec

from roquet.clock import Clock
from roquet.disk import Disk
from roquet.process_limits import KEPT_FILES, shortage_remedy
from roquet.protocol.names import is_system_topic
from roquet.store.commit_log import CommitLog
from roquet.store.config import StoreConfig
from roquet.store.consume_queue import ConsumeQueue
from roquet.store.errors import BadRecord
from roquet.store.files.mapped_file import MappedFile
from roquet.store.flushing import Flusher
from roquet.store.keys.key_index import KeyIndex
from roquet.store.queues import ConsumeQueues

# At most this many files are removed in one round; the next one comes soon.
FILES_PER_ROUND: Final = 10
# Once the disk counts as full, this many percent more have to be free before it no longer does.
FULL_DISK_MARGIN: Final = 2
_HOUR_MS: Final = 3_600_000


class SpaceLimits(msgspec.Struct, frozen=True):
    """Percent of disk usage above which expired files go, any files go, messages are refused."""

    clean_old: int
    clean_any: int
    full: int


class Pressure(Enum):
    NONE = "none"
    # Expired files are removed at any hour.
    OLD_FILES = "old files"
    # The oldest files are removed, whatever their age.
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
    FILLING = 1  # expired files are removed at any hour
    NEARLY_FULL = 2  # the oldest files are removed if allowed, or it will soon be full
    FULL = 3  # messages are refused


def alarm_of(used_percent: int, limits: SpaceLimits, *, is_disk_full: bool) -> Alarm:
    if is_disk_full:
        return Alarm.FULL
    if used_percent > limits.clean_any:
        return Alarm.NEARLY_FULL
    if used_percent > limits.clean_old:
        return Alarm.FILLING
    return Alarm.NONE


def is_full(used_percent: int, limits: SpaceLimits, *, was_full: bool) -> bool:
    """Whether messages have to be refused; with a margin, so that it does not flap."""
    if was_full:
        return used_percent > limits.full - FULL_DISK_MARGIN
    return used_percent > limits.full


class FilesToForget(NamedTuple):
    """How many files, from the oldest on, are removed, and how many of them before they expire."""

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

    It is that of the last message of the file.
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


class CleanReport(msgspec.Struct, frozen=True):
    used_percent: int
    alarm: Alarm
    # How many files of the log were removed, how many of them only because the disk is nearly full,
    # and how many messages were in them; the log starts at `log_start` now.
    file_count: int
    young_file_count: int
    message_count: int
    log_start: int
    # Why old files were left to the next round; None if they were not.
    postponed: str | None = None

    @property
    def is_disk_full(self) -> bool:
        return self.alarm is Alarm.FULL


@final
class Cleaner:
    """Names are taken away by the caller's thread, space is given back by the flushing one."""

    def __init__(
        self,
        config: StoreConfig,
        clock: Clock,
        disk: Disk,
        log: CommitLog,
        queues: ConsumeQueues,
        index: KeyIndex | None,
        flusher: Flusher,
    ) -> None:
        self._clock = clock
        self._disk = disk
        self._log = log
        self._queues = queues
        self._index = index
        self._flusher = flusher
        self.obey(config)
        self._is_disk_full = False
        # Queues that need not be opened again for a round that was postponed, each with the start
        # of the log that it was trimmed to, and how many messages that took.
        self._trimmed: dict[ConsumeQueue, int] = {}
        self._trimmed_count = 0
        self._refused_count = KEPT_FILES.refused_count
        self._started_ms = clock.now_ms()
        self._started_s = clock.monotonic_s()

    def obey(self, config: StoreConfig) -> None:
        self._config = config
        self._limits = SpaceLimits(
            config.disk_used_percent_max, config.disk_clean_percent, config.disk_full_percent
        )

    def clean(self, *, is_requested: bool) -> CleanReport:
        """One round. Raises OSError, but not for lack of descriptors: that is only reported."""
        used_percent = self._disk.space(self._config.layout.commit_log).used_percent
        self._is_disk_full = is_full(used_percent, self._limits, was_full=self._is_disk_full)
        # There may be more queues than a process can have files open. This comes first, because
        # what follows may need the descriptors.
        self._let_go(is_urgent=False)
        files, message_count, postponed = FilesToForget(0), 0, None
        try:
            due = self._files_due(used_percent, is_requested=is_requested)
            if due.file_count:
                message_count = self._forget(due.file_count)
            files = due
        except OSError as error:
            if shortage_remedy(error) is None:
                raise
            postponed = str(error)
        alarm = alarm_of(used_percent, self._limits, is_disk_full=self._is_disk_full)
        return CleanReport(
            used_percent, alarm, *files, message_count, self._log.start, postponed=postponed
        )

    def _files_due(self, used_percent: int, *, is_requested: bool) -> FilesToForget:
        """Raises OSError."""
        config = self._config
        now_ms = self._now_ms()
        local = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone()
        candidate_count = min(len(self._log.files) - 1, FILES_PER_ROUND)
        return files_to_forget(
            [self._last_timestamp(index) for index in range(candidate_count)],
            now_ms,
            reserved_hours=config.reserved_hours,
            pressure=pressure_of(used_percent, self._limits, clean_by_force=config.clean_by_force),
            is_hour=is_requested or local.hour in config.delete_hours,
        )

    def relieve(self) -> None:
        """Close files of queues early, if so many are open that other users may get none.

        To be called every second.
        """
        refused_count = KEPT_FILES.refused_count
        if KEPT_FILES.is_busy or refused_count != self._refused_count:
            self._flusher.want_queues()
            self._let_go(is_urgent=refused_count != self._refused_count)
        self._refused_count = refused_count

    def _let_go(self, *, is_urgent: bool) -> None:
        for queue in self._queues:
            self._flusher.retire(queue.let_go_of_idle(is_urgent=is_urgent))

    def _now_ms(self) -> int:
        """The time, but not ahead of the monotonic clock since the start.

        A clock that is set forward by days must not expire all messages at once.
        """
        passed_s = self._clock.monotonic_s() - self._started_s
        return min(self._clock.now_ms(), self._started_ms + int(passed_s * 1000))

    def _last_timestamp(self, index: int) -> int:
        """When the last message of a file was stored: just before the first of the next one.

        Not the modification time of the file, which backups and recoveries change.
        """
        following = self._log.files[index + 1]
        try:
            return self._log.record_at(following.start).store_timestamp
        except BadRecord:
            return self._modified_ms(self._log.files[index])

    def _modified_ms(self, file: MappedFile) -> int:
        for entry in self._disk.entries(file.path.parent):
            if entry.name == file.path.name:
                return entry.modified_ms
        return self._clock.now_ms()

    def _forget(self, count: int) -> int:
        """How many messages were removed, without those of system topics.

        Raises OSError. The log comes last: while it has its files, every entry points to a record,
        and the next round resumes where this one could not open a file.
        """
        log_start = self._log.files[count].start
        gone: list[MappedFile] = []
        try:
            for queue in self._queues:
                if self._trimmed.get(queue) != log_start:
                    gone += self._trim(queue, log_start)
            if self._index is not None:
                gone += self._index.forget(log_start)
            gone = self._log.forget(count) + gone
        finally:
            for file in gone:
                file.unlink()
            self._flusher.retire(gone)
        self._trimmed.clear()
        message_count, self._trimmed_count = self._trimmed_count, 0
        return message_count

    def _trim(self, queue: ConsumeQueue, log_start: int) -> list[MappedFile]:
        before = queue.min_offset
        gone = queue.forget(log_start)
        if not is_system_topic(queue.topic.decode()):
            self._trimmed_count += queue.min_offset - before
        self._trimmed[queue] = log_start
        return gone
