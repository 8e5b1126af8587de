"""Back-pressure: how many, how much, and who is next."""

import asyncio

import pytest

from roquet.client.producer.window import Window


async def entered(window: Window, size: int = 1) -> asyncio.Task[None]:
    """Somebody who is in, or waits."""
    task = asyncio.create_task(window.enter(size, 60))
    await asyncio.sleep(0)
    return task


async def test_count_and_size_are_bounded() -> None:
    window = Window(2, 10)
    await window.enter(5, 0)
    await window.enter(5, 0)
    with pytest.raises(TimeoutError):
        await window.enter(0, 0.001)
    window.leave(5)
    with pytest.raises(TimeoutError):
        await window.enter(6, 0.001)
    assert (window.count, window.size, window.waiting_count) == (1, 5, 0)


async def test_something_larger_than_the_window_enters_when_it_is_empty() -> None:
    window = Window(2, 10)
    await window.enter(11, 0)
    large = await entered(window, 12)
    window.leave(11)
    await large
    assert window.size == 12


async def test_who_comes_first_enters_first() -> None:
    window = Window(2, 10)
    await window.enter(6, 0)
    large, small = await entered(window, 10), await entered(window, 1)
    assert window.waiting_count == 2  # The small one would fit, but is not first.
    window.leave(6)
    await large
    assert not small.done()
    window.leave(10)
    await small


async def test_whoever_gives_up_leaves_no_gap_behind() -> None:
    window = Window(2, 10)
    await window.enter(6, 0)
    large, small = await entered(window, 10), await entered(window, 1)
    large.cancel()
    await small
    assert (window.count, window.size, window.waiting_count) == (2, 7, 0)


async def test_whoever_is_let_in_and_gives_up_in_the_same_moment_leaves() -> None:
    window = Window(1, 10)
    await window.enter(1, 0)
    waiting = await entered(window)
    window.leave(1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (window.count, window.size) == (0, 0)


async def test_one_can_wait_until_all_have_left() -> None:
    window = Window(2, 10)
    await window.until_empty()
    await window.enter(1, 0)
    emptied = asyncio.create_task(window.until_empty())
    await asyncio.sleep(0)
    assert not emptied.done()
    window.leave(1)
    await emptied
