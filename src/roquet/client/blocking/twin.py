"""What all blocking twins have in common: how they live, and with whom."""

from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from roquet.client.blocking.loop_thread import LoopThread


class AsyncLife(Protocol):
    async def open(self) -> None: ...

    async def close(self) -> None: ...


T = TypeVar("T", bound=AsyncLife)


class BlockingTwin(Generic[T]):
    """Has a thread with an event loop, in which its twin lives. `what` names it in errors.

    Any number of threads may use it; a call costs about 0.1 ms for the way to the other thread
    and back. Belongs to the process that made it.
    """

    def __init__(self, twin: T, what: str) -> None:
        self._twin = twin
        self._thread = LoopThread(what)

    def open(self) -> None:
        self._thread.start()
        try:
            self._thread.run(self._twin.open())
        except BaseException:
            self._thread.stop()
            raise

    def close(self) -> None:
        if self._thread.is_running:
            try:
                self._thread.run(self._twin.close())
            finally:
                self._thread.stop()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
