"""A store as its one owner, the broker, uses it: append, read, look up, clean.

All calls come from one thread and return at once; only now and then a file is created. Durability
comes later, from the flushing thread: `StoreListener.flushed` reports how far. See `Flusher` for
what that thread does, `recover` for what happens at opening.
"""

from collections.abc import Iterator
from typing import Final, Self, final

from roquet.clock import Clock
from roquet.disk import Disk, Space
from roquet.errors import RoquetError
from roquet.histogram import Histogram
from roquet.store.appends import AppendAdmission, Appends
from roquet.store.checkpoint import CheckpointFile
from roquet.store.checksum_notes import ChecksumNotes
from roquet.store.commit_log import CommitLog
from roquet.store.config import FlushMode, StoreConfig
from roquet.store.consume_queue import ConsumeQueue, QueueEntry, unpack_entries
from roquet.store.dispatch import Dispatcher
from roquet.store.divergent import DivergentCounter
from roquet.store.errors import BadRecord, StoreUnavailable, SyncFailed, refusal_of
from roquet.store.fast_appends import FastAppends
from roquet.store.flushing import Flusher, NoListener, StoreListener
from roquet.store.keys.key_index import (
    BACKLOG_COUNT,
    KeyIndex,
    KeyIndexConfig,
    KeyQuery,
    QueryResult,
    messages_with_key,
)
from roquet.store.log_scan import NO_END
from roquet.store.maintenance.cleaning import Cleaner, CleanReport
from roquet.store.maintenance.queue_deletion import DeletedQueues, QueueDeletion
from roquet.store.maintenance.scrubber import Scrubber, ScrubReport
from roquet.store.queues import ConsumeQueues
from roquet.store.reading.fast_reads import FastReads
from roquet.store.reading.fast_time_search import fast_offset_by_time
from roquet.store.reading.queue_reading import (
    Boundary,
    MessageReader,
    QueueReadLimits,
    ReadResult,
    ReadStatus,
    offset_by_time,
    store_time_of,
)
from roquet.store.reading_ahead import AheadReader
from roquet.store.recovery.opening import StoreParts, recover_store
from roquet.store.recovery.recovery import RecoveryReport
from roquet.store.replica_log import ReplicaLog
from roquet.store.store_lock import StoreLock

# This many entries of a queue are read at once.
_RECORD_COUNT: Final = 256


@final
class MessageStore:
    """Created by `open`; used by one thread; closed by `close`, or not at all: a crash is fine."""

    def __init__(
        self,
        config: StoreConfig,
        clock: Clock,
        disk: Disk,
        listener: StoreListener,
        lock: StoreLock,
    ) -> None:
        layout = config.layout
        self._config = config
        self._clock = clock
        self._disk = disk
        self._listener = listener
        self._lock = lock
        self._log = CommitLog(disk, layout.commit_log, config.commit_log_file_size)
        self._queues = ConsumeQueues(disk, layout, config.queue_file_size)
        self._deletions = DeletedQueues(disk, layout.deletions)
        self._checksum_notes = ChecksumNotes(disk, layout.checksummed)
        self.divergent = DivergentCounter(disk, layout)
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
        self._queue_deletion = QueueDeletion(
            self._log, self._queues, self._deletions, self._flusher.retire
        )
        self._is_sync = config.flush_mode is FlushMode.SYNC
        self._ahead_reader = AheadReader(self._log)
        self._admission = AppendAdmission(clock, lambda: self._flusher.failure)
        appends = Appends(
            config, clock, self._log, self._queues, self._index, self._admission, self._flusher
        )
        # Bound methods, so that no message pays for one more call.
        self.append: Final = appends.append
        self.append_batch: Final = appends.append_batch
        # The fast paths, for callers that know in advance that there is nothing to decide.
        self.fast_appends = FastAppends(
            self._log,
            self._queues.by_key,
            self._index,
            self._admission,
            self._flusher,
            body_size_max=config.body_size_max,
            is_sync=self._is_sync,
        )
        self.fast_reads = FastReads(self._log, self._queues.by_key, is_sync=self._is_sync)
        self.fast_reads.obey(config)
        self.recovery: RecoveryReport | None = None
        self._replica_log: ReplicaLog | None = None

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
        """Lock the directory and recover it.

        What the log has after `cut_end`, where a record ends, is cut off and backed up.

        Raises StoreInUse, BadStoreDirectory, BadStateFile, or StoreUnavailable for an error of
        the disk.
        """
        try:
            lock = StoreLock(disk, config.layout)
            store = cls(config, clock, disk, listener or NoListener(), lock)
            try:
                store._recover(cut_end)
            except (RoquetError, OSError):
                store._release()
                raise
        except OSError as error:
            raise refusal_of(error) from error
        return store

    def start(self) -> None:
        """Start the threads. Without that of the flusher, `flush` has to be called."""
        self._flusher.start()
        # Not while each send waits for the disk, or bytes of a master come in large pieces.
        if not self._is_sync and self._replica_log is None:
            self._ahead_reader.start()

    def close(self) -> None:
        """Sync everything and mark the directory as cleanly closed.

        Raises SyncFailed; then the next owner recovers as after a crash.
        """
        if self._admission.is_closed:
            return
        self._ahead_reader.stop()
        self._flusher.stop()
        self._admission.close()
        try:
            if self._replica_log is not None:
                # An incomplete record would be damage to the next owner.
                self._log.cut(self._log.end)
            if self._index is not None and self._index.is_following:
                self._index.file_unfiled(self._log)
            self._flusher.flush()
            self._lock.mark_clean()
        finally:
            self._release()

    def flush(self) -> None:
        """Sync everything now. Only without the thread. Raises SyncFailed."""
        self._flusher.flush()

    def sync_soon(self) -> None:
        """Have the thread sync the log now, whatever the interval is."""
        self._flusher.want()

    # As a slave

    def follow(self) -> ReplicaLog:
        """Become the store of a slave: accept the log of the master, and no messages.

        Raises StateNotSaved.
        """
        self._admission.refuse_as_slave()
        self._ahead_reader.stop()
        # That log may come from a broker that writes no checksums.
        self._checksum_notes.go_on(self._log, with_checksums=False)
        # Everything in the log was dispatched to the queues at opening.
        dispatcher = Dispatcher(
            self._queues,
            self._deletions,
            self._config.delay_levels_ms,
            log_start=self._log.start,
            dispatched_from=self._log.start,
            retire=self._flusher.retire,
        )
        self._replica_log = ReplicaLog(
            self._log, dispatcher, self._index, self._flusher, is_sync=self._is_sync
        )
        return self._replica_log

    def pause(self) -> None:
        """Accept no messages, so that the log stays as it is until `go_on`."""
        self._admission.refuse_as_slave()

    def go_on(self) -> None:
        self._admission.accept_messages()

    def lead(self) -> None:
        """Become the store of a master: accept messages after the last complete record.

        The threads are stopped meanwhile. Raises StateNotSaved, StoreUnavailable, or
        SyncFailed if that thread does not stop.
        """
        is_flushed_by_thread = self._flusher.is_running
        self._ahead_reader.stop()
        self._flusher.stop()
        # An incomplete record would be damage.
        self._log.cut(self._log.end)
        self._log.resume()
        self._checksum_notes.go_on(self._log, with_checksums=self._config.write_checksums)
        self._replica_log = None
        self._admission.accept_messages()
        if is_flushed_by_thread:
            self.start()

    # Reading

    def read(self, topic: str, queue_id: int, offset: int, limits: QueueReadLimits) -> ReadResult:
        """Messages of one queue; the status names a problem with them or with the offset.

        Raises OSError when a file cannot be opened.
        """
        queue = self._queues.find(topic.encode(), queue_id)
        if queue is None:
            return ReadResult(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        return self._reader.read(queue, offset, self._max_offset(queue), limits)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The first offset that can be read; 0 for a queue that does not exist."""
        queue = self._queues.find(topic.encode(), queue_id)
        return 0 if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Just past the last offset that can be read; 0 for a queue that does not exist."""
        queue = self._queues.find(topic.encode(), queue_id)
        return 0 if queue is None else self._max_offset(queue)

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp: int, boundary: Boundary = Boundary.LOWER
    ) -> int:
        queue = self._queues.find(topic.encode(), queue_id)
        if queue is None:
            return 0
        max_offset = self._max_offset(queue)
        found = fast_offset_by_time(
            queue,
            self._log,
            max_offset,
            timestamp,
            is_upper=boundary is Boundary.UPPER,
            fresh_from=self._reader.fresh_from,
        )
        if found is not None:
            return found
        return offset_by_time(
            lambda offset: store_time_of(self._log, queue, offset),
            queue.min_offset,
            max_offset,
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
        """The record at exactly this offset, checked. Raises BadRecord."""
        record = self._log.record_at(physical_offset)
        if physical_offset + record.size > self.readable_end:
            raise BadRecord(physical_offset, "not readable yet")
        found = self._log.bytes_at(physical_offset, record.size)
        assert found is not None
        return found

    def query(self, topic: str, key: str, count_max: int, begin: int, end: int) -> QueryResult:
        """The newest messages with a key, stored between two times, in the order of the log.

        Keys that are not indexed yet are indexed first; `file_keys` does it step by step. Raises
        StoreUnavailable when they cannot be indexed now.
        """
        if self._index is None:
            return QueryResult([], 0, 0)
        try:
            self._index.file_backlog(self._log)
        except OSError as error:
            raise refusal_of(error) from error
        wanted = KeyQuery(topic, key, min(count_max, self._config.query_count_max), begin, end)
        return messages_with_key(self._index, self._log, wanted, self.readable_end)

    def records(self, topic: str, queue_id: int, offset: int) -> Iterator[tuple[int, bytes]]:
        """Each record of a queue from `offset` on, with its physical offset.

        For what the broker itself keeps in the log, including what consumers may not read yet.
        Records that are damaged, or gone, are skipped.
        """
        queue = self._queues.find(topic.encode(), queue_id)
        while queue is not None and offset < queue.max_offset:
            entries = list(unpack_entries(queue.entries(offset, _RECORD_COUNT)))
            offset = offset + len(entries) if entries else queue.next_file_offset(offset)
            for entry in entries:
                record = self._log_bytes(*entry[:2])
                if record is not None:
                    yield entry[0], record

    def end_offset(self, topic: str, queue_id: int) -> int:
        """Just past the last offset, whether or not it can be read; 0 without a queue."""
        queue = self._queues.find(topic.encode(), queue_id)
        return 0 if queue is None else queue.max_offset

    def queue_count(self, topic: str) -> int:
        """One more than the greatest id of a queue with messages."""
        return self._queues.count_of(topic.encode())

    def queues(self) -> dict[str, list[int]]:
        """The ids of the queues of each topic."""
        found: dict[str, list[int]] = {}
        for queue in self._queues:
            if queue.max_offset:
                found.setdefault(queue.topic.decode(), []).append(queue.queue_id)
        return found

    @property
    def queue_file_count(self) -> int:
        """How many files all queues have, open or not."""
        return sum(len(queue.files) for queue in self._queues)

    @property
    def log_start(self) -> int:
        return self._log.start

    def disk_space(self) -> Space:
        """Of the disk that has the log."""
        return self._disk.space(self._config.layout.commit_log)

    @property
    def refusal(self) -> StoreUnavailable | None:
        """Why messages are refused now; None if they are accepted."""
        return self._admission.refusal

    def check(self) -> None:
        """Raises StoreUnavailable if messages are refused now."""
        self._admission.check()

    @property
    def sync_times(self) -> Histogram:
        """How long the disk took for the log, in seconds."""
        return self._flusher.sync_times

    @property
    def log_end(self) -> int:
        return self._log.end

    @property
    def synced_end(self) -> int:
        """Records before it survive a power cut."""
        return self._log.synced_end

    @property
    def stored_end(self) -> int:
        """Records before it count as stored: with sync flush, only those that are synced."""
        return self._log.synced_end if self._is_sync else self._log.end

    @property
    def readable_end(self) -> int:
        """Records before it may be read."""
        return min(self.stored_end, self._log.confirmed_end)

    def hold_back(self, end: int) -> None:
        """Hide what lies after this offset from readers, until the next call."""
        self._log.confirmed_end = end

    def log_view(self, physical_offset: int, size_max: int) -> memoryview:
        """See `CommitLog.view_at`."""
        return self._log.view_at(physical_offset, size_max)

    # Maintenance

    def file_keys(self, count_max: int = BACKLOG_COUNT) -> bool:
        """Index keys whose messages were only noted; whether the index has all messages now.

        To be called regularly: takes a microsecond a message. Raises StoreUnavailable.
        """
        if self._index is None:
            return True
        try:
            return self._index.catch_up(self._log, count_max)
        except OSError as error:
            raise refusal_of(error) from error

    def obey(self, config: StoreConfig) -> None:
        """Apply other limits of reading and cleaning; the rest is fixed at opening."""
        self._reader.obey(config)
        self.fast_reads.obey(config)
        self._cleaner.obey(config)

    def clean(self, *, is_requested: bool = False) -> CleanReport:
        """Remove expired files, or more under disk pressure; refuse messages on a full disk.

        To be called every ten seconds or so. Raises StoreUnavailable for errors of the disk; a
        lack of descriptors is reported, and the next call tries again.
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
        """Check some more of the log; see `Scrubber`. To be called when idle.

        Raises StoreUnavailable when a file cannot be opened; the next call resumes there.
        """
        try:
            return self._scrubber.step(size_max)
        except OSError as error:
            raise refusal_of(error) from error

    def relieve(self) -> None:
        """See `Cleaner.relieve`. To be called every second."""
        self._cleaner.relieve()

    def delete_topic(self, topic: str, before: int | None = None) -> None:
        """Delete the queues of a topic. Its messages stay in the log until they expire.

        With `before`, the topic was deleted at that physical offset: later messages belong to a new
        topic of the same name. Raises StateNotSaved; then nothing has changed.
        """
        self._queue_deletion.delete_topic(topic.encode(), before)

    def delete_expired_queues(self) -> list[tuple[str, int]]:
        """Delete queues whose messages have all expired; their topics and ids."""
        return self._queue_deletion.delete_expired()

    # How it works

    def _recover(self, cut_end: int) -> None:
        parts = StoreParts(
            config=self._config,
            disk=self._disk,
            lock=self._lock,
            log=self._log,
            queues=self._queues,
            deletions=self._deletions,
            checkpoints=self._checkpoints,
            checksum_notes=self._checksum_notes,
            index=self._index,
        )
        self.recovery = recover_store(parts, cut_end)

    def _release(self) -> None:
        self._flusher.close_retired()
        if self._index is not None:
            self._index.close()
        self._queues.close()
        self._log.close()
        self._checkpoints.close()
        self._lock.release()

    def _log_bytes(self, physical_offset: int, size: int) -> bytes | None:
        """None unless there is a good record of that size."""
        try:
            is_good = self._log.record_at(physical_offset).size == size
        except BadRecord:
            return None
        return self._log.bytes_at(physical_offset, size) if is_good else None

    def _max_offset(self, queue: ConsumeQueue) -> int:
        end = self.readable_end
        return queue.max_offset if end == self._log.end else queue.offset_before(end)

    def _fail(self, error: SyncFailed) -> None:
        self._admission.fail(error)
        self._listener.flush_failed(error)
