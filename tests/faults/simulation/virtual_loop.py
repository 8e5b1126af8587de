"""An event loop whose time passes only when all tasks wait, and then at once.

Nothing runs beside it: what would be done in a thread is done in the loop, a moment later. So a run
depends on nothing but what it draws from its seed.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Final, TypeVar, TypeVarTuple

from tests.faults.simulation.network import Network

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START_S: Final = 1_000.0
# What a thread takes to do its work.
_THREAD_S_MAX: Final = 0.003


class NothingLeft(Exception):
    """All tasks wait for each other, for ever."""


class _Waiting:
    """Where another loop would wait for sockets, this one lets time pass."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout_s: float | None) -> list[Any]:
        if timeout_s is None:
            raise NothingLeft
        self._loop.now_s += timeout_s
        return []

    def close(self) -> None:
        pass


class VirtualLoop(asyncio.BaseEventLoop):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self.now_s = START_S
        self._selector = _Waiting(self)
        self._chance = Random(f"{seed} threads")
        self.network = Network(self, seed)

    def time(self) -> float:
        return self.now_s

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Any = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(
        self, _executor: object, function: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        async def work() -> T:
            await asyncio.sleep(self._chance.uniform(0, _THREAD_S_MAX))
            return function(*args)

        return self.create_task(work())

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Any, host: Any, port: Any, **_: Any
    ) -> Any:
        return await self.network.connect(host, port, protocol_factory)

    def _process_events(self, events: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass
