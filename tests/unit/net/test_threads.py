"""Work in threads ends before those who waited for it go on."""

import asyncio
import threading

import pytest

from roquet.net.service import to_its_end


async def test_it_returns_and_raises_what_the_work_does() -> None:
    assert await to_its_end(int, "12", base=8) == 10
    with pytest.raises(ValueError, match="invalid literal"):
        await to_its_end(int, "9", base=8)


async def test_a_cancelled_task_waits_for_the_thread() -> None:
    has_begun, may_end = threading.Event(), threading.Event()

    def work() -> None:
        has_begun.set()
        may_end.wait(10)

    waiting = asyncio.create_task(to_its_end(work))
    await asyncio.to_thread(has_begun.wait, 10)
    waiting.cancel()
    _, pending = await asyncio.wait([waiting], timeout=0.05)
    assert pending
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
