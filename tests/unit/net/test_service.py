"""Background work: who restarts, who stops all, and how it ends."""

import asyncio

import pytest

from roquet.broker.replication.errors import LinkClosed
from roquet.net import service
from roquet.net.service import OnFailure, Services, run_until_first_fails
from tests.support.eventually import eventually


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "RESTART_PAUSE_S", 0.0)


class Work:
    """Fails as often as configured, then continues for ever."""

    def __init__(self, failure_count: int = 0) -> None:
        self.begun_count = 0
        self.ended_count = 0
        self._failure_count = failure_count

    async def __call__(self) -> None:
        self.begun_count += 1
        try:
            if self.begun_count <= self._failure_count:
                raise RuntimeError("broken")
            await asyncio.Event().wait()
        finally:
            self.ended_count += 1


async def test_leaving_the_block_ends_everything() -> None:
    work = Work()
    async with Services("test") as services:
        services.run("work", work, on_failure=OnFailure.RESTART)
        services.every("again", 0.0, work)
        await eventually(lambda: work.begun_count == 2)
        assert work.ended_count == 0
    assert work.ended_count == 2
    assert len(asyncio.all_tasks()) == 1


async def test_failed_work_is_logged_and_restarted(caplog: pytest.LogCaptureFixture) -> None:
    work = Work(failure_count=2)
    async with Services("test") as services:
        services.run("work", work, on_failure=OnFailure.RESTART)
        await eventually(lambda: work.begun_count == 3)
    assert [record.getMessage() for record in caplog.records] == ["test: work failed"] * 2


async def test_failed_work_that_nothing_can_continue_without_ends_the_block(
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = Work()
    with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="broken")):
        async with Services("test") as services:
            services.run("other", other, on_failure=OnFailure.RESTART)
            services.run("work", Work(failure_count=1), on_failure=OnFailure.STOP_ALL)
            await asyncio.Event().wait()
    assert other.ended_count == other.begun_count == 1
    assert "test: work failed" in caplog.text


async def test_work_that_returns_is_not_restarted() -> None:
    count = 0

    async def work() -> None:
        nonlocal count
        count += 1

    async with Services("test") as services:
        services.run("work", work, on_failure=OnFailure.RESTART)
        services.once("work", work)
        await eventually(lambda: count == 2)
        await eventually(lambda: len(asyncio.all_tasks()) == 1)
    assert count == 2


async def test_a_failed_turn_is_logged_and_the_next_one_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    work = Work(failure_count=2)
    async with Services("test") as services:
        services.every("turn", 0.0, work)
        await eventually(lambda: work.begun_count == 3)
    assert [record.getMessage() for record in caplog.records] == ["test: turn failed"] * 2


async def test_work_done_once_may_fail_alone(caplog: pytest.LogCaptureFixture) -> None:
    work = Work(failure_count=1)
    async with Services("test") as services:
        services.once("once", work)
        await eventually(lambda: work.ended_count == 1)
    assert work.begun_count == 1
    assert "test: once failed" in caplog.text


async def test_work_that_comes_after_the_end_is_not_begun() -> None:
    work = Work()
    async with Services("test") as services:
        pass
    services.once("late", work)
    await asyncio.sleep(0)
    assert work.begun_count == 0


async def test_tasks_have_names() -> None:
    async with Services("broker") as services:
        services.run("flush", Work(), on_failure=OnFailure.RESTART)
        assert "broker: flush" in {task.get_name() for task in asyncio.all_tasks()}


async def test_an_error_of_the_block_itself_comes_out_as_it_is() -> None:
    work = Work()

    async def block() -> None:
        async with Services("test") as services:
            services.run("work", work, on_failure=OnFailure.RESTART)
            await eventually(lambda: work.begun_count)
            raise OSError("port is taken")

    with pytest.raises(OSError, match="port is taken"):
        await block()
    assert work.ended_count == 1


async def test_cancelling_the_block_ends_its_work_and_passes_through() -> None:
    work = Work()

    async def block() -> None:
        async with Services("test") as services:
            services.run("work", work, on_failure=OnFailure.RESTART)
            await asyncio.Event().wait()

    task = asyncio.create_task(block())
    await eventually(lambda: work.begun_count)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.ended_count == 1


async def test_plain_functions_are_work_too() -> None:
    turns: list[int] = []
    async with Services("test") as services:
        services.every("turn", 0.0, lambda: turns.append(1))
        await eventually(lambda: len(turns) >= 3)


async def wait_for_ever(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("waiting")


async def fail(after: asyncio.Event) -> None:
    await after.wait()
    raise LinkClosed("over")


async def test_the_first_failure_ends_both() -> None:
    ended: list[str] = []
    failing = asyncio.Event()
    failing.set()
    with pytest.raises(LinkClosed):
        await run_until_first_fails(wait_for_ever(ended), fail(failing))
    assert ended == ["waiting"]


async def test_a_task_cancelled_while_one_fails_is_still_cancelled() -> None:
    failing = asyncio.Event()
    task = asyncio.create_task(run_until_first_fails(wait_for_ever([]), fail(failing)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    failing.set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
