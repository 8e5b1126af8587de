"""A store as its one owner, the broker, sees it: append, read, look up, clean.

Everything here is a plain call of one thread and returns at once; only files are made now
and then. Durability comes later, from the thread that flushes: `StoreListener.flushed` says
how far. See `Flusher` for what that thread does, `recover` for what happens at opening.
"""

from itertools import accumulate
from typing import Final, NamedTuple, Self, final

import msgspec

from roquet.clock import Clock
from roquet.disk import Disk
from roquet.errors import RoquetError
from roquet.histogram import Histogram
from roquet.protocol import names
from roquet.protocol.errors import TooLarge
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.message import SysFlag
from roquet.protocol.messages.record_batches import RecordBatch
from roquet.protocol.messages.tags import tags_code_of
from roquet.store.admission import AppendAdmission
from roquet.store.checksummed import NO_END
from roquet.store.commit_log import CommitLog
from roquet.store.config import FlushMode, StoreConfig
from roquet.store.consume_queue import ConsumeQueue, QueueEntry, unpack_entries
from roquet.store.errors import BadRecord, StoreUnavailable, SyncFailed, refusal_of
from roquet.store.flushing import Flusher
from roquet.store.keys.key_index import BACKLOG_COUNT, BATCH_COUNT, KeyIndex, KeyIndexConfig
from roquet.store.keys.message_keys import has_key
from roquet.store.listener import NoListener, StoreListener
from roquet.store.log_copy import LogCopy
from roquet.store.plain_appends import PlainAppends
from roquet.store.queue_entries import pack_entries
from roquet.store.queues import ConsumeQueues
from roquet.store.reading.queue_reading import (
    MessageReader,
    QueueReadLimits,
    ReadResult,
    ReadStatus,
    store_time_of,
)
from roquet.store.reading.time_search import Boundary, offset_by_time
from roquet.store.reading.usual_reads import UsualReads
from roquet.store.recovery.checkpoint import CheckpointFile
from roquet.store.recovery.checksum_notes import ChecksumNotes
from roquet.store.recovery.deletions import Deletions
from roquet.store.recovery.dispatch import SCHEDULE_TOPIC, Dispatcher, delivery_time_of
from roquet.store.recovery.opening import StoreParts, bring_into_order
from roquet.store.recovery.ownership import Ownership
from roquet.store.recovery.recovery import RecoveryReport
from roquet.store.upkeep.cleaning import Cleaner, CleanReport
from roquet.store.upkeep.scrubber import Scrubber, ScrubReport

# The bit that prepared and rolled back messages have, and no others.
_IN_NO_QUEUE: Final = SysFlag.TRANSACTION_PREPARED.value
# The broker itself follows the queues of these. One that began again would be behind where the
# broker is, and never be looked at.
_FOLLOWED: Final = (names.SCHEDULE_TOPIC, names.TIMER_TOPIC, names.HALF_TOPIC, names.OP_HALF_TOPIC)
_FOLLOWED_TOPICS: Final = frozenset(map(str.encode, _FOLLOWED))
_CANDIDATES: Final = 4


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


class QueryResult(NamedTuple):
    records: list[bytes]
    # What the index filed last, for clients that want to know how fresh it is.
    last_timestamp: int
    last_physical_offset: int


@final
class MessageStore:
    """Made by `open`; used by one thread; closed by `close`, or not at all: a crash is fine."""

    def __init__(
        self,
        config: StoreConfig,
        clock: Clock,
        disk: Disk,
        listener: StoreListener,
        ownership: Ownership,
    ) -> None:
        layout = config.layout
        self._config = config
        self._clock = clock
        self._disk = disk
        self._listener = listener
        self._ownership = ownership
        self._log = CommitLog(disk, layout.commit_log, config.commit_log_file_size)
        self._queues = ConsumeQueues(disk, layout, config.queue_file_size)
        self._deletions = Deletions(disk, layout.deletions)
        self._checksum_notes = ChecksumNotes(disk, layout.checksummed)
        self._index: KeyIndex | None = None
        if config.index_keys:
            index_config = KeyIndexConfig(
                config.index_slot_count, config.index_entry_count, config.index_tags
            )
            self._index = KeyIndex(disk, layout.index, clock, index_config)
        self._checkpoints = CheckpointFile(disk, layout.checkpoint)
        self._flusher = Flusher(
            config,
            clock,
            self._log,
            self._queues,
            self._index,
            checkpoints=self._checkpoints,
            listener=listener,
            on_failed=self._fail,
        )
        self._reader = MessageReader(self._log, config, listener.damaged)
        self._cleaner = Cleaner(
            config, clock, disk, self._log, self._queues, self._index, self._flusher
        )
        self._scrubber = Scrubber(self._log, self._queues, config.delay_levels_ms)
        self._body_size_max = config.body_size_max
        self._is_sync = config.flush_mode is FlushMode.SYNC
        self._admission = AppendAdmission(clock, lambda: self._flusher.failure)
        # For those that know in advance that there is nothing to decide.
        self.plain_appends = PlainAppends(
            self._log,
            self._queues.by_key,
            self._index,
            self._admission,
            self._flusher,
            body_size_max=self._body_size_max,
            is_sync=self._is_sync,
        )
        self.usual_reads = UsualReads(self._log, self._queues.by_key, is_sync=self._is_sync)
        self.usual_reads.obey(config)
        self.recovery: RecoveryReport | None = None
        self._copy: LogCopy | None = None

    @classmethod
    def open(
        cls,
        config: StoreConfig,
        clock: Clock,
        disk: Disk,
        listener: StoreListener | None = None,
        *,
        cut_end: int = NO_END,
    ) -> Self:
        """Take the directory and bring it into order.

        What the log has behind `cut_end`, where a record ends, is cut off and kept aside.

        Raises StoreInUse, BadStoreDirectory, BadStateFile, or StoreUnavailable for an error of
        the disk.
        """
        try:
            ownership = Ownership(disk, config.layout)
            store = cls(config, clock, disk, listener or NoListener(), ownership)
            try:
                store._recover(cut_end)
            except (RoquetError, OSError):
                store._release()
                raise
        except OSError as error:
            raise refusal_of(error) from error
        return store

    def start(self) -> None:
        """Start the thread that flushes. Without it, `flush` has to be called."""
        self._flusher.start()

    def close(self) -> None:
        """Bring everything to disk and leave the directory in order for the next owner.

        Raises SyncFailed; then the next owner will recover as after a crash.
        """
        if self._admission.is_closed:
            return
        self._flusher.stop()
        self._admission.close()
        try:
            if self._copy is not None:
                # Half a record would be taken for damage by the next owner.
                self._log.cut(self._log.end)
            if self._index is not None and self._index.is_following:
                self._index.file_unfiled(self._log)
            self._flusher.flush()
            self._ownership.mark_clean()
        finally:
            self._release()

    def flush(self) -> None:
        """Bring everything to disk now. Only without the thread. Raises SyncFailed."""
        self._flusher.flush()

    # Appending

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
            else delivery_time_of(properties, store_timestamp, self._config.delay_levels_ms),
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

    def follow(self) -> LogCopy:
        """Take no messages any more, only the log of another store: this one becomes its copy.

        Raises StateNotSaved.
        """
        self._admission.take_copies_only()
        # Whoever writes that one may make no checksums.
        self._checksum_notes.go_on(self._log, with_checksums=False)
        # Everything that the log has is in the queues since it was opened.
        dispatcher = Dispatcher(
            self._queues,
            self._deletions,
            self._config.delay_levels_ms,
            log_start=self._log.start,
            dispatched_from=self._log.start,
            retire=self._flusher.retire,
        )
        self._copy = LogCopy(
            self._log, dispatcher, self._index, self._flusher, is_sync=self._is_sync
        )
        return self._copy

    def pause(self) -> None:
        """Take no messages, so that the log stays as it is until `go_on`."""
        self._admission.take_copies_only()

    def go_on(self) -> None:
        self._admission.take_messages()

    def lead(self) -> None:
        """Take messages again, where the copy has come to. Raises StateNotSaved, StoreUnavailable.

        The thread that flushes stands still meanwhile. Raises SyncFailed if it does not.
        """
        is_flushed_by_thread = self._flusher.is_running
        self._flusher.stop()
        # Half a record would be taken for damage.
        self._log.cut(self._log.end)
        self._log.resume()
        self._checksum_notes.go_on(self._log, with_checksums=self._config.write_checksums)
        self._copy = None
        self._admission.take_messages()
        if is_flushed_by_thread:
            self._flusher.start()

    # Reading

    def read(self, topic: str, queue_id: int, offset: int, limits: QueueReadLimits) -> ReadResult:
        """Messages of one queue; what can go wrong is said by the status, nothing is raised."""
        queue = self._queues.find(topic.encode(), queue_id)
        if queue is None:
            return ReadResult(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        return self._reader.read(queue, offset, self._max_offset(queue), limits)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The first offset that can be read; 0 for a queue that is not there."""
        queue = self._queues.find(topic.encode(), queue_id)
        return 0 if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Just past the last offset that can be read; 0 for a queue that is not there."""
        queue = self._queues.find(topic.encode(), queue_id)
        return 0 if queue is None else self._max_offset(queue)

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp: int, boundary: Boundary = Boundary.LOWER
    ) -> int:
        queue = self._queues.find(topic.encode(), queue_id)
        if queue is None:
            return 0
        return offset_by_time(
            lambda offset: store_time_of(self._log, queue, offset),
            queue.min_offset,
            self._max_offset(queue),
            timestamp,
            boundary,
        )

    def store_time(self, topic: str, queue_id: int, offset: int) -> int | None:
        """When a message was stored; None for one that cannot be read."""
        queue = self._queues.find(topic.encode(), queue_id)
        if queue is None or not queue.min_offset <= offset < self._max_offset(queue):
            return None
        return store_time_of(self._log, queue, offset)

    def entries(self, topic: str, queue_id: int, offset: int, count: int) -> list[QueueEntry]:
        """Entries of a queue as they are, for tools."""
        queue = self._queues.find(topic.encode(), queue_id)
        if queue is None:
            return []
        count = min(count, self._max_offset(queue) - offset)
        return [QueueEntry(*entry) for entry in unpack_entries(queue.entries(offset, count))]

    def record_at(self, physical_offset: int) -> bytes:
        """The record that lies exactly there, checked. Raises BadRecord."""
        record = self._log.record_at(physical_offset)
        if physical_offset + record.size > self.readable_end:
            raise BadRecord(physical_offset, "not in the log yet")
        found = self._log.bytes_at(physical_offset, record.size)
        assert found is not None
        return found

    def query(self, topic: str, key: str, count_max: int, begin: int, end: int) -> QueryResult:
        """The newest messages with a key, stored between two times, in the order of the log.

        Raises StoreUnavailable when keys that were not filed yet cannot be filed now.
        """
        index = self._index
        if index is None:
            return QueryResult([], 0, 0)
        self.file_keys()
        topic_bytes = topic.encode()
        key_bytes = key.encode()
        count_max = min(count_max, self._config.query_count_max)
        found: dict[int, bytes] = {}
        # Some of what is found only has the same hash.
        candidates = index.find(topic_bytes, key_bytes, begin, end, _CANDIDATES * count_max)
        for physical_offset in candidates:
            record = self._record_with_key(physical_offset, topic_bytes, key_bytes)
            if record is not None and len(found) < count_max:
                found[physical_offset] = record
        last = index.last
        return QueryResult(
            [found[each] for each in sorted(found)], last.end_timestamp, last.end_physical_offset
        )

    def queues(self) -> dict[str, list[int]]:
        """The ids of the queues of each topic."""
        found: dict[str, list[int]] = {}
        for queue in self._queues:
            if queue.max_offset:
                found.setdefault(queue.topic.decode(), []).append(queue.queue_id)
        return found

    @property
    def log_start(self) -> int:
        return self._log.start

    @property
    def refusal(self) -> StoreUnavailable | None:
        """Why messages are not taken now; None if they are."""
        return self._admission.refusal

    @property
    def sync_times(self) -> Histogram:
        """How long the disk took for the log, in seconds."""
        return self._flusher.sync_times

    @property
    def log_end(self) -> int:
        return self._log.end

    @property
    def synced_end(self) -> int:
        """What lies before it in the log survives a power cut."""
        return self._log.synced_end

    @property
    def stored_end(self) -> int:
        """What lies before it in the log counts as stored: with sync flush, only what is safe."""
        return self._log.synced_end if self._is_sync else self._log.end

    @property
    def readable_end(self) -> int:
        """What lies before it in the log may be read."""
        return min(self.stored_end, self._log.confirmed_end)

    def hold_back(self, end: int) -> None:
        """Let nobody read what lies behind it in the log, until the next call."""
        self._log.confirmed_end = end

    def log_view(self, physical_offset: int, size_max: int) -> memoryview:
        """See `CommitLog.view_at`."""
        return self._log.view_at(physical_offset, size_max)

    # Upkeep

    def file_keys(self, count_max: int = BACKLOG_COUNT) -> bool:
        """File keys that were only noted down; whether the index knows all messages now.

        To be called every now and then: costs a microsecond a message. Raises StoreUnavailable.
        """
        if self._index is None:
            return True
        try:
            return self._index.catch_up(self._log, count_max)
        except OSError as error:
            raise refusal_of(error) from error

    def obey(self, config: StoreConfig) -> None:
        """Take other limits of reading and cleaning; the rest is fixed when a store is opened."""
        self._reader.obey(config)
        self.usual_reads.obey(config)
        self._cleaner.obey(config)

    def clean(self, *, is_requested: bool = False) -> CleanReport:
        """Remove files that are old enough, or in the way; refuse messages on a full disk.

        To be called every ten seconds or so. What can go wrong with the disk is raised as
        StoreUnavailable.
        """
        try:
            report = self._cleaner.clean(is_requested=is_requested)
        except OSError as error:
            raise refusal_of(error) from error
        if report.is_disk_full:
            self._admission.set_disk_full(report.used_percent)
        else:
            self._admission.set_disk_free()
        return report

    def scrub(self, size_max: int) -> ScrubReport:
        """Check some more of the log; see `Scrubber`. To be called when there is time."""
        return self._scrubber.step(size_max)

    def delete_topic(self, topic: str) -> None:
        """Forget all queues of a topic. Its messages stay in the log until they expire.

        Raises StateNotSaved when that cannot be made sure of; then nothing has changed.
        """
        deleted = [queue for queue in self._queues if queue.topic == topic.encode()]
        if not deleted:
            return
        self._deletions.add(
            [(queue.topic, queue.queue_id) for queue in deleted], self._log.start, self._log.end
        )
        for queue in deleted:
            self._flusher.retire(self._queues.remove(queue))

    def delete_expired_queues(self) -> list[tuple[str, int]]:
        """Forget queues whose messages have all expired; their topics and ids."""
        expired = [
            queue
            for queue in self._queues
            if queue.topic not in _FOLLOWED_TOPICS
            and queue.max_offset
            and queue.last_physical_end() <= self._log.start
        ]
        for queue in expired:
            self._flusher.retire(self._queues.remove(queue))
        return [(queue.topic.decode(), queue.queue_id) for queue in expired]

    # How it works

    def _recover(self, cut_end: int) -> None:
        parts = StoreParts(
            config=self._config,
            disk=self._disk,
            ownership=self._ownership,
            log=self._log,
            queues=self._queues,
            deletions=self._deletions,
            checkpoints=self._checkpoints,
            checksum_notes=self._checksum_notes,
            index=self._index,
        )
        self.recovery = bring_into_order(parts, cut_end)

    def _release(self) -> None:
        self._flusher.close_retired()
        if self._index is not None:
            self._index.close()
        self._queues.close()
        self._log.close()
        self._checkpoints.close()
        self._ownership.release()

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

    def _max_offset(self, queue: ConsumeQueue) -> int:
        end = self.readable_end
        return queue.max_offset if end == self._log.end else queue.offset_before(end)

    def _record_with_key(self, physical_offset: int, topic: bytes, key: bytes) -> bytes | None:
        try:
            if has_key(self._log.record_at(physical_offset), topic, key):
                return self.record_at(physical_offset)
        except BadRecord:
            pass
        return None

    def _fail(self, error: SyncFailed) -> None:
        self._admission.fail(error)
        self._listener.flush_failed(error)
