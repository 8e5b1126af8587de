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
from roquet.store.errors import BadRecord
from roquet.store.files.mapped_file import MappedFile
from roquet.store.flushing import Flusher
from roquet.store.keys.key_index import KeyIndex
from roquet.store.queues import ConsumeQueues
from roquet.store.upkeep.retention import (
    Alarm,
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
        # Whether queues may begin before the log does, because their files could not be opened.
        self._are_queues_behind = False
        self._refused_count = KEPT_FILES.refused_count
        self._started_ms = clock.now_ms()
        self._started_s = clock.monotonic_s()

    def obey(self, config: StoreConfig) -> None:
        self._config = config
        self._limits = SpaceLimits(
            config.disk_used_percent_max, config.disk_clean_percent, config.disk_full_percent
        )

    def clean(self, *, is_requested: bool) -> CleanReport:
        """One round. Raises OSError."""
        config = self._config
        used_percent = self._disk.space(config.layout.commit_log).used_percent
        self._is_disk_full = is_full(used_percent, self._limits, was_full=self._is_disk_full)
        now_ms = self._now_ms()
        local = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone()
        files = files_to_forget(
            [self._last_timestamp(index) for index in range(len(self._log.files) - 1)],
            now_ms,
            reserved_hours=config.reserved_hours,
            pressure=pressure_of(used_percent, self._limits, clean_by_force=config.clean_by_force),
            is_hour=is_requested or local.hour in config.delete_hours,
        )
        if files.file_count:
            self._forget(files.file_count)
        message_count = self._forget_in_queues() if self._are_queues_behind else 0
        # There may be more queues than a process can have files open.
        self._let_go(is_urgent=False)
        alarm = alarm_of(used_percent, self._limits, is_disk_full=self._is_disk_full)
        return CleanReport(
            used_percent, alarm, files.file_count, files.young_count, message_count, self._log.start
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

    def _forget(self, count: int) -> None:
        gone = self._log.forget(count)
        self._are_queues_behind = True
        if self._index is not None:
            gone += self._index.forget(self._log.start)
        self._remove(gone)

    def _forget_in_queues(self) -> int:
        """How many messages are gone; what the broker kept for itself is not counted."""
        self._are_queues_behind = False
        message_count = 0
        for queue in self._queues:
            before = queue.min_offset
            try:
                self._remove(queue.forget(self._log.start))
            except OSError as error:
                if shortage_remedy(error) is None:
                    raise
                # There are more queues than files can be open: the next round goes on.
                self._are_queues_behind = True
            if not is_system_topic(queue.topic.decode()):
                message_count += queue.min_offset - before
        return message_count

    def _remove(self, files: list[MappedFile]) -> None:
        for file in files:
            file.unlink()
        self._flusher.retire(files)
