"""Coroutines for threads without a loop: what they return and raise; and none waits for ever."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from roquet.client.blocking.loop_thread import LoopThread
from roquet.client.errors import BadArgument, NotOpen
from tests.support.eventually import wait_until


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    thread = LoopThread("worker")
    thread.start()
    yield thread
    thread.stop()


async def doubled(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


def test_the_thread_that_asks_gets_the_result(thread: LoopThread) -> None:
    assert [thread.run(doubled(number)) for number in range(3)] == [0, 2, 4]


def test_the_thread_that_asks_gets_the_error(thread: LoopThread) -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError("nothing here")

    with pytest.raises(LookupError, match="nothing here"):
        thread.run(fail())
    assert thread.run(doubled(1)) == 2


def test_waiting_for_a_loop_that_has_ended_fails_at_once() -> None:
    thread = LoopThread("worker")
    with pytest.raises(NotOpen):
        thread.run(doubled(1))
    thread.start()
    thread.stop()
    with pytest.raises(NotOpen):
        thread.run(doubled(1))


@pytest.mark.parametrize("is_begun", [True, False])
def test_waiters_get_an_error_when_the_loop_ends(is_begun: bool) -> None:
    thread = LoopThread("worker")
    thread.start()
    outcomes: list[str] = []
    has_begun = threading.Event()

    async def wait_for_ever() -> None:
        has_begun.set()
        await asyncio.Event().wait()

    def ask() -> None:
        try:
            thread.run(wait_for_ever())
        except asyncio.CancelledError:
            outcomes.append("cancelled")
        except NotOpen:
            outcomes.append("too late")

    asking = threading.Thread(target=ask)
    asking.start()
    if is_begun:
        has_begun.wait()
    thread.stop()
    wait_until(lambda: outcomes)
    asking.join()
    assert outcomes == ["cancelled"] if is_begun else outcomes[0] in {"cancelled", "too late"}


def test_a_thread_of_the_loop_that_asks_does_not_keep_it_from_ending() -> None:
    thread = LoopThread("worker")
    thread.start()
    is_begun, may_ask = threading.Event(), threading.Event()
    outcomes: list[str] = []

    def ask() -> None:
        is_begun.set()
        may_ask.wait()
        try:
            thread.run(doubled(1))
        except NotOpen:
            outcomes.append("too late")

    async def begin() -> None:
        asyncio.get_running_loop().run_in_executor(None, ask)

    thread.run(begin())
    is_begun.wait()
    stopping = threading.Thread(target=thread.stop, daemon=True)
    stopping.start()
    wait_until(lambda: not thread.is_running)
    may_ask.set()
    stopping.join(20)
    assert not stopping.is_alive()
    assert outcomes == ["too late"]


def test_what_ends_before_its_first_step_is_reported_too(thread: LoopThread) -> None:
    async def stop_before_the_next_begins() -> None:
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task() and "_serve" not in repr(task):
                task.cancel()

    outcomes: list[str] = []

    def ask() -> None:
        try:
            thread.run(doubled(1))
            outcomes.append("served")
        except asyncio.CancelledError:
            outcomes.append("cancelled")

    # Both come to the loop in one turn often enough.
    for _ in range(50):
        asking = threading.Thread(target=ask)
        asking.start()
        thread.run(stop_before_the_next_begins())
        asking.join(20)
        assert not asking.is_alive()
    assert set(outcomes) <= {"served", "cancelled"}
    assert len(outcomes) == 50


async def test_a_blocking_client_inside_a_loop_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    async def nothing() -> None: ...

    thread = LoopThread("producer")
    thread.start()
    try:
        thread.run(nothing())
        thread.run(nothing())
    finally:
        thread.stop()
    (record,) = caplog.records
    assert "the blocking producer is called inside an event loop" in record.message


def test_a_call_that_would_wait_for_itself_is_an_error() -> None:
    async def nothing() -> None: ...

    async def wait_for_itself() -> None:
        itself.run(nothing())

    itself = LoopThread("producer")
    itself.start()
    try:
        with pytest.raises(BadArgument, match="would wait for itself"):
            itself.run(wait_for_itself())
    finally:
        itself.stop()
