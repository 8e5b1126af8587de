"""Virtual time passes at once, and only when all tasks wait."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from tests.faults.simulation.virtual_loop import START_S, NothingLeft, VirtualLoop

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(1)) as runner:
        return runner.run(main)


def test_a_day_passes_at_once() -> None:
    async def main() -> float:
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time()

    assert run(main()) == START_S + 86_400


def test_sleepers_wake_in_the_order_of_their_times() -> None:
    woken: list[float] = []

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append(seconds)

    async def main() -> None:
        await asyncio.gather(*map(sleep, (3, 1, 2)))

    run(main())
    assert woken == [1, 2, 3]


def test_work_for_a_thread_is_done_in_the_loop() -> None:
    async def main() -> int:
        return await asyncio.to_thread(threading.get_ident)

    assert run(main()) == threading.get_ident()


def test_a_wait_without_an_event_is_reported() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(NothingLeft):
        run(main())
