"""How a message gets into a store: one record in the log, one entry in its queue.

Messages that leave nothing to decide go through `plain_appends` instead.
"""

from itertools import accumulate
from typing import Final, final

import msgspec

from roquet.clock import Clock
from roquet.protocol.errors import TooLarge
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.message import SysFlag
from roquet.protocol.messages.record_batches import RecordBatch
from roquet.protocol.messages.tags import tags_code_of
from roquet.store.admission import AppendAdmission
from roquet.store.commit_log import CommitLog
from roquet.store.config import FlushMode, StoreConfig
from roquet.store.errors import StoreUnavailable
from roquet.store.flushing import Flusher
from roquet.store.keys.key_index import BATCH_COUNT, KeyIndex
from roquet.store.queue_entries import pack_entries
from roquet.store.queues import ConsumeQueues
from roquet.store.recovery.dispatch import SCHEDULE_TOPIC, delivery_time_of

# The bit that prepared and rolled back messages have, and no others.
_IN_NO_QUEUE: Final = SysFlag.TRANSACTION_PREPARED.value


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
class Appends:
    """Belongs to the owner of the store, like everything that it writes to."""

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
            # First the space, then the record: an entry that cannot be written would be missing.
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
