"""The thread that syncs everything, and the listener that it notifies.

Sync flush: every append wakes the thread. While it syncs, more appends arrive, and the next
round covers all of them. Async flush: rounds come by the clock. Queues, index and checkpoint
are synced at intervals in either mode; they can be rebuilt from the log.
"""

from collections import deque
from collections.abc import Callable, Iterable
from math import inf
from threading import Event, Thread
from typing import Final, Protocol, final

from roquet.clock import Clock
from roquet.disk import PAGE_SIZE, is_full
from roquet.histogram import Histogram
from roquet.process_limits import is_short_of_descriptors
from roquet.store.checkpoint import Checkpoint, CheckpointFile
from roquet.store.commit_log import CommitLog
from roquet.store.config import FlushMode, StoreConfig
from roquet.store.errors import Damage, SyncFailed
from roquet.store.files.mapped_file import MappedFile
from roquet.store.keys.key_index import KeyIndex
from roquet.store.queues import ConsumeQueues

_STOP_TIMEOUT_S: Final = 60.0
_MEMORY_INTERVAL_S: Final = 1.0


class StoreListener(Protocol):
    """Notified by the store.

    `flushed`, `flush_postponed` and `flush_failed` are called by the flushing thread, `damaged` by
    the caller of the store. They must return quickly and raise nothing.
    """

    def flushed(self, end: int) -> None:
        """All records before the physical offset `end` survive a power cut."""

    def flush_postponed(self, reason: str) -> None:
        """A round of syncs failed to start or continue; the next one retries. Called once."""

    def flush_failed(self, error: SyncFailed) -> None:
        """Nothing appended since the last `flushed` may be acknowledged, now or later."""

    def damaged(self, damage: Damage) -> None:
        """Damage was found by a read, and not returned to the reader."""


class NoListener:
    """Ignores everything."""

    def flushed(self, end: int) -> None:
        pass

    def flush_postponed(self, reason: str) -> None:
        pass

    def flush_failed(self, error: SyncFailed) -> None:
        pass

    def damaged(self, damage: Damage) -> None:
        pass


@final
class Flusher:
    """Its rounds run in its own thread or, before that is started, in the caller's."""

    def __init__(
        self,
        config: StoreConfig,
        clock: Clock,
        log: CommitLog,
        queues: ConsumeQueues,
        index: KeyIndex | None,
        *,
        checkpoints: CheckpointFile,
        listener: StoreListener,
        on_failed: Callable[[SyncFailed], None],
    ) -> None:
        self._config = config
        self._clock = clock
        self._log = log
        self._queues = queues
        self._index = index
        self._checkpoints = checkpoints
        self._listener = listener
        self._on_failed = on_failed
        self._is_wanted = Event()
        self._is_stopping = False
        self._thread: Thread | None = None
        self._retired: deque[MappedFile] = deque()
        now = clock.monotonic_s()
        self._log_synced_at = now
        self._caches_synced_at = now
        self._memory_given_back_at = now
        self._is_postponed = False
        self._are_queues_wanted = False
        self.failure: SyncFailed | None = None
        # How long the disk took, in seconds, whenever there was something to sync.
        self.sync_times = Histogram()

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    def start(self) -> None:
        self._is_stopping = False
        self._thread = Thread(target=self._run, name="roquet-flush", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; what it has not synced is left to `flush`.

        Raises SyncFailed when the disk does not respond.
        """
        if self._thread is None:
            return
        self._is_stopping = True
        self._is_wanted.set()
        self._thread.join(_STOP_TIMEOUT_S)
        if self._thread.is_alive():
            raise SyncFailed(f"a sync did not end within {_STOP_TIMEOUT_S:.0f} seconds")
        self._thread = None

    def want(self) -> None:
        """Have the log synced soon."""
        # Testing costs a tenth of setting.
        if not self._is_wanted.is_set():
            self._is_wanted.set()

    def want_queues(self) -> None:
        """Have queues synced soon, before they are due: synced ones can be closed."""
        self._are_queues_wanted = True
        self._is_wanted.set()

    def retire(self, files: Iterable[MappedFile]) -> None:
        """Close files as soon as they cannot be in the middle of a sync."""
        self._retired.extend(files)

    def close_retired(self) -> None:
        while self._retired:
            self._retired.popleft().close()

    def flush(self) -> None:
        """Sync everything now. Only without the thread. Raises SyncFailed."""
        assert self._thread is None
        if self.failure is None:
            self._round(self._sync_everything)
        if self.failure is not None:
            raise self.failure
        if self._is_postponed:
            raise SyncFailed("no file descriptors left to sync everything")

    def tick(self) -> None:
        """One round. Only without the thread; failures go to the listener and are not raised."""
        if self.failure is None:
            self._round(self._sync_what_is_due)

    def _run(self) -> None:
        interval_s = self._config.flush_interval_ms / 1000
        try:
            # Little may be left of the file that the store was opened with.
            self._log.make_next_file()
            while self.failure is None and not self._is_stopping:
                self._is_wanted.wait(interval_s)
                self._round(self._sync_what_is_due)
        finally:
            # A bug ends the thread, too, and then nothing would ever be synced again.
            if self.failure is None and not self._is_stopping:
                self._fail("the flushing thread has ended")

    def _round(self, sync: Callable[[], None]) -> None:
        try:
            self.close_retired()
            sync()
            self._is_postponed = False
        except OSError as error:
            if is_short_of_descriptors(error):
                # A file could not be opened: no sync has failed, and none was reported.
                self._postpone(str(error))
                return
            # After a failed sync the kernel may drop what it could not write, so a retry that
            # succeeds proves nothing. Waiting sends must not be acknowledged, now or later.
            self._fail(f"a sync failed: {error}")

    def _postpone(self, reason: str) -> None:
        # A checkpoint is due with the next round, and not a minute later.
        self._caches_synced_at = -inf
        if not self._is_postponed:
            self._is_postponed = True
            self._listener.flush_postponed(reason)

    def _fail(self, reason: str) -> None:
        self.failure = SyncFailed(reason)
        self._on_failed(self.failure)

    def _sync_what_is_due(self) -> None:
        now = self._clock.monotonic_s()
        if self._is_wanted.is_set() or self._is_log_due(now):
            self._sync_log()
        self._log.make_next_file()
        is_due = now - self._caches_synced_at >= self._config.queue_flush_interval_ms / 1000
        if is_due or self._are_queues_wanted:
            self._are_queues_wanted = False
            self._caches_synced_at = now
            self._sync_caches()
        if now - self._memory_given_back_at >= _MEMORY_INTERVAL_S:
            self._memory_given_back_at = now
            self._log.give_back_memory()
            if self._index is not None:
                self._index.give_back_memory()

    def _sync_everything(self) -> None:
        self._sync_log()
        self._sync_caches()

    def _is_log_due(self, now: float) -> bool:
        waiting = self._log.end - self._log.synced_end
        if self._config.flush_mode is FlushMode.SYNC:
            return waiting > 0
        is_old = now - self._log_synced_at >= self._config.flush_all_interval_ms / 1000
        return waiting >= self._config.flush_pages_min * PAGE_SIZE or (is_old and waiting > 0)

    def _sync_log(self) -> None:
        # Cleared first: appends from now on are covered by the next round.
        self._is_wanted.clear()
        self._log_synced_at = self._clock.monotonic_s()
        has_news = self._log.end > self._log.synced_end
        end = self._log.sync()
        if has_news:
            self.sync_times.add(self._clock.monotonic_s() - self._log_synced_at)
        self._listener.flushed(end)
        self._checkpoints.note_durable(end)

    def _sync_caches(self) -> None:
        """Queues, index and, when they are synced, the checkpoint that records it."""
        # Read before the sync: the checkpoint must not cover what came during it.
        timestamp = self._log.last_store_timestamp
        for queue in self._queues:
            queue.sync()
            queue.give_back_memory()
            # The descriptors may be needed elsewhere.
            self.close_retired()
            if self._is_wanted.is_set():
                # There may be thousands of queues, and an append is waiting.
                self._sync_log()
        index_timestamp = 0 if self._index is None else self._index.sync()
        self._sync_log()
        checkpoint = Checkpoint(timestamp, timestamp, index_timestamp, self._log.synced_end)
        try:
            self._checkpoints.save(checkpoint)
        except OSError as error:
            # The older checkpoint stays true; it only makes a recovery longer.
            if not is_full(error):
                raise
