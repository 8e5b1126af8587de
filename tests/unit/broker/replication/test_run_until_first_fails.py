"""Two tasks that end together."""

import asyncio

import pytest

from roquet.broker.replication.errors import LinkClosed
from roquet.broker.replication.run_until_first_fails import run_until_first_fails


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


async def test_who_is_cancelled_while_one_fails_is_still_cancelled() -> None:
    failing = asyncio.Event()
    task = asyncio.create_task(run_until_first_fails(wait_for_ever([]), fail(failing)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    failing.set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
