"""Back-pressure: how many, how much, and who is next."""

import asyncio

import pytest

from roquet.client.producer.window import Window
from tests.support.busy import busy_for


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


async def test_the_first_waiter_enters_first() -> None:
    window = Window(2, 10)
    await window.enter(6, 0)
    large, small = await entered(window, 10), await entered(window, 1)
    assert window.waiting_count == 2  # The small one would fit, but is not first.
    window.leave(6)
    await large
    assert not small.done()
    window.leave(10)
    await small


async def test_a_cancelled_send_leaves_no_gap() -> None:
    window = Window(2, 10)
    await window.enter(6, 0)
    large, small = await entered(window, 10), await entered(window, 1)
    large.cancel()
    await small
    assert (window.count, window.size, window.waiting_count) == (2, 7, 0)


async def test_a_waiter_that_is_admitted_and_cancelled_at_once_leaves() -> None:
    window = Window(1, 10)
    await window.enter(1, 0)
    waiting = await entered(window)
    window.leave(1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (window.count, window.size) == (0, 0)


async def test_waiting_continues_as_long_as_others_are_stored() -> None:
    # More with each look for ten times its time, and then nothing more.
    looks = 0

    def stored_count() -> int:
        nonlocal looks
        looks += 1
        return min(looks, 20)

    window = Window(1, 10, stored_count)
    await window.enter(1, 0)
    with pytest.raises(TimeoutError):
        await window.enter(1, 0.01)
    assert looks >= 22


async def test_a_busy_loop_does_not_make_anyone_give_up_before_it_has_read() -> None:
    stored = 0
    window = Window(1, 10, lambda: stored)
    await window.enter(1, 0)
    waiting = asyncio.create_task(window.enter(1, 0.2))
    await asyncio.sleep(0)
    busy_for(0.3)

    def read() -> None:
        nonlocal stored
        stored += 1
        window.leave(1)

    asyncio.get_running_loop().call_later(0.01, read)
    await waiting
    assert window.count == 1


async def test_to_give_up_costs_the_same_however_many_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = 0

    class Counted(asyncio.Future[None]):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return self is other

        __hash__ = asyncio.Future.__hash__

    loop = asyncio.get_running_loop()
    count = 5_000
    window = Window(1, 10)
    await window.enter(1, 0)
    monkeypatch.setattr(loop, "create_future", lambda: Counted(loop=loop), raising=False)
    waiting = [window.room(1, 60) for _ in range(count)]
    monkeypatch.undo()
    for may_enter in reversed(waiting):
        may_enter.cancel()
        window.give_up(may_enter, 1)
    # One that is searched for would be compared with all that came before it.
    assert compared <= count
    assert window.waiting_count == 0


async def test_all_give_up_in_turns_of_the_loop_that_are_short() -> None:
    window = Window(1, 10)
    await window.enter(1, 0)
    ends = [asyncio.create_task(window.enter(1, 0.01)) for _ in range(3_000)]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    assert sum(end.done() for end in ends) <= 2_000
    results = await asyncio.gather(*ends, return_exceptions=True)
    assert {type(result) for result in results} == {TimeoutError}


async def test_one_can_wait_until_all_have_left() -> None:
    window = Window(2, 10)
    await window.until_empty()
    await window.enter(1, 0)
    emptied = asyncio.create_task(window.until_empty())
    await asyncio.sleep(0)
    assert not emptied.done()
    window.leave(1)
    await emptied
