"""How a store is set up: Apache's keys in our words, with Apache's defaults but for one."""

import os
from enum import Enum
from pathlib import Path
from typing import Final

import msgspec

from roquet.store.files.layout import StoreLayout, layout_of

_MINUTE_MS: Final = 60_000
# 1s 5s 10s 30s 1m ... 10m 20m 30m 1h 2h
DELAY_LEVELS_MS: Final = (
    *(1_000, 5_000, 10_000, 30_000),
    *(minutes * _MINUTE_MS for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 60, 120)),
)


class FlushMode(Enum):
    ASYNC = "ASYNC_FLUSH"
    SYNC = "SYNC_FLUSH"


def _memory_size() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class StoreConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The comment after a member is Apache's key for it; members without one are ours."""

    root: Path  # storePathRootDir
    commit_log_directory: Path | None = None  # storePathCommitLog
    commit_log_file_size: int = 1 << 30  # mappedFileSizeCommitLog
    queue_file_size: int = 6_000_000  # mappedFileSizeConsumeQueue
    index_slot_count: int = 5_000_000  # maxHashSlotNum
    index_entry_count: int = 20_000_000  # maxIndexNum
    index_keys: bool = True  # messageIndexEnable
    index_tags: bool = False  # 5.5 does it always

    body_size_max: int = 4 << 20  # maxMessageSize
    write_checksums: bool = True  # enabledAppendPropCRC
    # Compare a record with its checksum when it is read from disk, and not only at the start.
    check_reads: bool = True  # checkCRCOnRead
    delay_levels_ms: tuple[int, ...] = DELAY_LEVELS_MS  # messageDelayLevel

    flush_mode: FlushMode = FlushMode.ASYNC  # flushDiskType
    flush_interval_ms: int = 500  # flushIntervalCommitLog
    flush_pages_min: int = 4  # flushCommitLogLeastPages
    flush_all_interval_ms: int = 10_000  # flushCommitLogThoroughInterval
    queue_flush_interval_ms: int = 60_000  # flushConsumeQueueThoroughInterval

    read_count_max_in_memory: int = 32  # maxTransferCountOnMessageInMemory
    read_size_max_in_memory: int = 262_144  # maxTransferBytesOnMessageInMemory
    read_count_max_on_disk: int = 8  # maxTransferCountOnMessageInDisk
    read_size_max_on_disk: int = 65_536  # maxTransferBytesOnMessageInDisk
    memory_percent: int = 40  # accessMessageInMemoryMaxRatio
    memory_size: int = _memory_size()
    query_count_max: int = 64  # maxMsgsNumBatch

    reserved_hours: int = 72  # fileReservedTime
    delete_hours: tuple[int, ...] = (4,)  # deleteWhen
    disk_used_percent_max: int = 75  # diskMaxUsedSpaceRatio
    disk_clean_percent: int = 85  # diskSpaceCleanForciblyRatio
    disk_full_percent: int = 90  # diskSpaceWarningLevelRatio
    # Not Apache's default: a full disk refuses new messages, which their senders notice, and takes
    # none away that was acknowledged and is younger than it was promised to become.
    clean_by_force: bool = False  # cleanFileForciblyEnable

    @property
    def layout(self) -> StoreLayout:
        return layout_of(self.root, self.commit_log_directory)

    @property
    def in_memory_size(self) -> int:
        """How far back from the end of the log a record is still taken to be in memory."""
        return self.memory_size * self.memory_percent // 100
