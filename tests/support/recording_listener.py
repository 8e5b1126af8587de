"""A store listener that records its calls."""

from threading import Condition

from roquet.store.errors import Damage, SyncFailed

WAIT_S_MAX = 20.0


class RecordingListener:
    def __init__(self) -> None:
        self.flushes: list[int] = []
        self.failures: list[SyncFailed] = []
        self.postponed: list[str] = []
        self.damages: list[Damage] = []
        self._changed = Condition()

    def flushed(self, end: int) -> None:
        with self._changed:
            self.flushes.append(end)
            self._changed.notify_all()

    def flush_postponed(self, reason: str) -> None:
        self.postponed.append(reason)

    def flush_failed(self, error: SyncFailed) -> None:
        with self._changed:
            self.failures.append(error)
            self._changed.notify_all()

    def damaged(self, damage: Damage) -> None:
        self.damages.append(damage)

    @property
    def safe_end(self) -> int:
        return max(self.flushes, default=0)

    def wait_until_safe(self, end: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.safe_end >= end, WAIT_S_MAX)

    def wait_until_failed(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: bool(self.failures), WAIT_S_MAX)
