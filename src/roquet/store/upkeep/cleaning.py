"""Taking files out of a store: old ones of the log, and what was made from them."""

from datetime import UTC, datetime
from typing import final

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
from roquet.store.upkeep.retention import (
    FILES_PER_ROUND,
    Alarm,
    FilesToForget,
    SpaceLimits,
    alarm_of,
    files_to_forget,
    is_full,
    pressure_of,
)


class CleanReport(msgspec.Struct, frozen=True):
    used_percent: int
    alarm: Alarm
    # How many files of the log are gone, how many of them only because the disk is nearly full, and
    # how many messages were in them; the log begins at `log_start` now.
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
        # There may be more queues than a process can have files open. First of all, because what
        # follows may need the descriptors.
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
        """Have files of queues closed early, if there are so many that others may get none.

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
        """The time, but not ahead of what has really passed since the start.

        A clock that is set forward by days must not make all messages old at once.
        """
        passed_s = self._clock.monotonic_s() - self._started_s
        return min(self._clock.now_ms(), self._started_ms + int(passed_s * 1000))

    def _last_timestamp(self, index: int) -> int:
        """When the last message of a file was stored: just before the first of the next one.

        Not the time of the file, because copies and recoveries change that.
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
        """How many messages are gone; what the broker kept for itself is not counted.

        Raises OSError. The log comes last: while it has its files, every entry leads to a record,
        and the next round goes on where this one could not open a file.
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
