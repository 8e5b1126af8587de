"""The thread that brings everything to disk, and releases all who wait for that at once.

Sync flush: every append wakes the thread. While it syncs, more appends arrive, and the next
round covers all of them. Async flush: rounds come by the clock. Queues, index and checkpoint
are synced now and then in either mode; they can be made again from the log.
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
    def flushed(self, end: int) -> None:
        """All records before the physical offset `end` survive a power cut."""

    def flush_postponed(self, reason: str) -> None:
        """A round of syncs could not begin, or go on; the next one tries again. Said once."""

    def flush_failed(self, error: SyncFailed) -> None:
        """Nothing appended since the last `flushed` may be acknowledged, now or later."""

    def damaged(self, damage: Damage) -> None:
        """Something was found damaged while reading, and was not handed out."""


class NoListener:
    """For owners who do not want to know."""

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
    """Its rounds run in its own thread or, as long as that is not started, in the caller's."""

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
        """Let the thread end; what it has not synced is left to `flush`.

        Raises SyncFailed when the disk does not answer.
        """
        if self._thread is None:
            return
        self._is_stopping = True
        self._is_wanted.set()
        self._thread.join(_STOP_TIMEOUT_S)
        if self._thread.is_alive():
            raise SyncFailed(f"a sync has not ended after {_STOP_TIMEOUT_S:.0f} seconds")
        self._thread = None

    def want(self) -> None:
        """Have the log synced soon."""
        # Asking costs a tenth of setting.
        if not self._is_wanted.is_set():
            self._is_wanted.set()

    def want_queues(self) -> None:
        """Have queues synced soon, and not only when it is time: those that are can be closed."""
        self._are_queues_wanted = True
        self._is_wanted.set()

    def retire(self, files: Iterable[MappedFile]) -> None:
        """Close files as soon as nobody can be syncing them."""
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
            raise SyncFailed("there are no descriptors left for what has to be synced")

    def tick(self) -> None:
        """What the thread does once. Only without the thread; failures are told, not raised."""
        if self.failure is None:
            self._round(self._sync_what_is_due)

    def _run(self) -> None:
        interval_s = self._config.flush_interval_ms / 1000
        try:
            while self.failure is None and not self._is_stopping:
                self._is_wanted.wait(interval_s)
                self._round(self._sync_what_is_due)
        finally:
            # A bug of ours ends the thread, too, and then nothing will ever be safe again.
            if self.failure is None and not self._is_stopping:
                self._fail("the thread that flushes has ended")

    def _round(self, sync: Callable[[], None]) -> None:
        try:
            self.close_retired()
            sync()
            self._is_postponed = False
        except OSError as error:
            if is_short_of_descriptors(error):
                # A file could not be opened: no sync has failed, and nobody was told of one.
                self._postpone(str(error))
                return
            # After a failed sync the kernel may drop what it could not write, so a retry that
            # succeeds proves nothing. Nobody who waits may be told "stored", now or later.
            self._fail(f"the disk did not take what was written: {error}")

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
        # Cleared first: whoever asks from now on is served by the next round.
        self._is_wanted.clear()
        self._log_synced_at = self._clock.monotonic_s()
        has_news = self._log.end > self._log.synced_end
        end = self._log.sync()
        if has_news:
            self.sync_times.add(self._clock.monotonic_s() - self._log_synced_at)
        self._listener.flushed(end)
        self._checkpoints.note_durable(end)

    def _sync_caches(self) -> None:
        """Queues, index and, when they are safe, the checkpoint that says so."""
        # Read before the sync: the checkpoint must not speak of what came during it.
        timestamp = self._log.last_store_timestamp
        for queue in self._queues:
            queue.sync()
            queue.give_back_memory()
            # Others may wait for the descriptors.
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
