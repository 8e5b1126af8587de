"""Appends a message: one record in the log, one entry in its queue; and refuses it, if it must.

Messages that leave nothing to decide take the fast path, `fast_appends`.
"""

from collections.abc import Callable
from itertools import accumulate
from math import inf
from typing import Final, final

import msgspec

from roquet.clock import Clock
from roquet.protocol.errors import TooLarge
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.message import SysFlag
from roquet.protocol.messages.record_batches import RecordBatch
from roquet.protocol.messages.tags import tags_code_of
from roquet.store.commit_log import CommitLog
from roquet.store.config import FlushMode, StoreConfig
from roquet.store.dispatch import SCHEDULE_TOPIC, delivery_time_of
from roquet.store.errors import (
    DiskFull,
    NotMaster,
    StoreClosed,
    StoreUnavailable,
    SyncFailed,
    refusal_of,
)
from roquet.store.flushing import Flusher
from roquet.store.keys.key_index import BATCH_COUNT, KeyIndex
from roquet.store.queue_entries import pack_entries
from roquet.store.queues import ConsumeQueues

# The bit that prepared and rolled back messages have, and no others.
_IN_NO_QUEUE: Final = SysFlag.TRANSACTION_PREPARED.value

# After DiskFull, this long passes before an append tries again.
_FULL_DISK_PAUSE_S: Final = 1.0


@final
class Appended(msgspec.Struct, frozen=True, gc=False):
    queue_offset: int
    physical_offset: int
    size: int
    store_timestamp: int


@final
class AppendedBatch(msgspec.Struct, frozen=True, gc=False):
    queue_offset: int  # of the first message
    physical_offsets: list[int]
    size: int
    store_timestamp: int


@final
class AppendAdmission:
    """Whether the store accepts messages now, and if not, why.

    Used by the owner of the store; only `fail` is called by the flushing thread.
    """

    def __init__(self, clock: Clock, failure: Callable[[], SyncFailed | None]) -> None:
        self._clock = clock
        self._failure = failure
        self._retry_at_s = 0.0
        # None while messages are accepted. A caller that finds an error here calls `check`.
        self.refusal: StoreUnavailable | None = None

    @property
    def is_closed(self) -> bool:
        return isinstance(self.refusal, StoreClosed)

    def check(self) -> None:
        """Raises StoreUnavailable, unless it is time to retry."""
        refusal = self.refusal
        if isinstance(refusal, DiskFull) and self._clock.monotonic_s() >= self._retry_at_s:
            # A sync may have failed at this moment, and that refusal must stay.
            refusal = self.refusal = self._failure()
        if refusal is not None:
            # A new one: the traceback of an error that is raised repeatedly would grow.
            raise type(refusal)(*refusal.args)

    def refused(self, error: OSError | StoreUnavailable) -> StoreUnavailable:
        """What to raise when a message could not be written."""
        refusal = error if isinstance(error, StoreUnavailable) else refusal_of(error)
        if isinstance(refusal, DiskFull):
            self.refusal = refusal
            self._retry_at_s = self._clock.monotonic_s() + _FULL_DISK_PAUSE_S
        return refusal

    def set_disk_full(self, used_percent: int) -> None:
        """Refuse messages until `set_disk_free`."""
        if self.refusal is None:
            self.refusal = DiskFull(
                f"the disk is full: {used_percent} percent of it is in use, more than "
                "diskSpaceWarningLevelRatio allows",
                used_percent,
            )
        self._retry_at_s = inf

    def set_disk_free(self) -> None:
        if self._retry_at_s == inf:
            self._retry_at_s = 0.0

    def fail(self, error: SyncFailed) -> None:
        """Refuse messages from now on."""
        self.refusal = error

    def refuse_as_slave(self) -> None:
        """Accept no messages: the log comes from the master."""
        self.refusal = NotMaster("this is a slave: only its master accepts messages")

    def accept_messages(self) -> None:
        """Accept messages again, unless there is another reason to refuse them."""
        if isinstance(self.refusal, NotMaster):
            self.refusal = self._failure()

    def close(self) -> None:
        self.refusal = StoreClosed("the store is closed")


@final
class Appends:
    """Used by the owner of the store only."""

    def __init__(
        self,
        config: StoreConfig,
        clock: Clock,
        log: CommitLog,
        queues: ConsumeQueues,
        index: KeyIndex | None,
        admission: AppendAdmission,
        flusher: Flusher,
    ) -> None:
        self._clock = clock
        self._log = log
        self._queues = queues
        self._index = index
        self._admission = admission
        self._flusher = flusher
        self._body_size_max = config.body_size_max
        self._delay_levels_ms = config.delay_levels_ms
        self._is_sync = config.flush_mode is FlushMode.SYNC

    def append(self, draft: RecordDraft) -> Appended:
        """Store one message and enter it into its queue.

        Raises TooLarge or BadMessage for a message that cannot be stored, StoreUnavailable
        when nothing can; then nothing has changed.
        """
        if self._admission.refusal is not None:
            self._admission.check()
        size = draft.size
        if size > self._body_size_max:
            self._check_body_size(len(draft.body))
        if draft.sys_flag & _IN_NO_QUEUE:
            return self._append_unqueued(draft)
        topic = draft.topic
        queue_id = draft.queue_id
        queue = self._queues.by_key.get((topic, queue_id))
        if queue is None:
            queue = self._queues.find_or_add(topic, queue_id)
        store_timestamp = self._clock.now_ms()
        queue_offset = queue.max_offset
        try:
            # The space first, then the record: without its entry a record cannot be found.
            if queue.position == queue.reserved_position:
                queue.reserve()
            physical_offset = self._log.append(draft, queue_offset, store_timestamp)
        except (OSError, StoreUnavailable) as error:
            raise self._admission.refused(error) from error
        properties = draft.properties
        queue.append(
            physical_offset,
            size,
            tags_code_of(properties)
            if topic != SCHEDULE_TOPIC
            else delivery_time_of(properties, store_timestamp, self._delay_levels_ms),
        )
        index = self._index
        if index is not None and index.is_following:
            index.unfiled.append(physical_offset)
            if len(index.unfiled) >= BATCH_COUNT:
                index.file_unfiled(self._log)
        if self._is_sync:
            self._flusher.want()
        return Appended(queue_offset, physical_offset, size, store_timestamp)

    def append_batch(self, batch: RecordBatch) -> AppendedBatch:
        """Store messages of one queue one after another, all or none. Raises as `append` does."""
        if self._admission.refusal is not None:
            self._admission.check()
        self._check_body_size(batch.body_size)
        queue = self._queues.find_or_add(batch.topic, batch.queue_id)
        store_timestamp = self._clock.now_ms()
        queue_offset = queue.max_offset
        sizes = batch.sizes
        try:
            queue.reserve(len(sizes))
            start = self._log.append(batch, queue_offset, store_timestamp)
        except (OSError, StoreUnavailable) as error:
            raise self._admission.refused(error) from error
        *physical_offsets, end = accumulate(sizes, initial=start)
        queue.append_many(pack_entries(start, sizes, batch.tags_codes))
        self._note_unfiled(physical_offsets)
        if self._is_sync:
            self._flusher.want()
        return AppendedBatch(queue_offset, physical_offsets, end - start, store_timestamp)

    def _append_unqueued(self, draft: RecordDraft) -> Appended:
        """Prepared and rolled back messages of old brokers are in the log only."""
        store_timestamp = self._clock.now_ms()
        try:
            physical_offset = self._log.append(draft, 0, store_timestamp)
        except StoreUnavailable as error:
            raise self._admission.refused(error) from error
        self._note_unfiled([physical_offset])
        if self._is_sync:
            self._flusher.want()
        return Appended(0, physical_offset, draft.size, store_timestamp)

    def _note_unfiled(self, physical_offsets: list[int]) -> None:
        index = self._index
        if index is not None and index.is_following:
            index.unfiled += physical_offsets
            if len(index.unfiled) >= BATCH_COUNT:
                index.file_unfiled(self._log)

    def _check_body_size(self, size: int) -> None:
        if size > self._body_size_max:
            raise TooLarge("body", size, self._body_size_max)
