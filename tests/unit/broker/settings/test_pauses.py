"""Pauses whose length an operator changes."""

import asyncio

from roquet.broker.settings.config import Pauses

DAY_MS = 86_400_000


async def test_a_pause_takes_as_long_as_it_is_meant_to() -> None:
    loop = asyncio.get_running_loop()
    begin_s = loop.time()
    await Pauses().pause(lambda: 20)
    assert loop.time() - begin_s >= 0.019


async def test_a_pause_that_is_shortened_ends_early() -> None:
    pauses, interval_ms = Pauses(), DAY_MS
    pausing = asyncio.ensure_future(pauses.pause(lambda: interval_ms))
    await asyncio.sleep(0)
    interval_ms = 1
    pauses.settings_changed()
    async with asyncio.timeout(10):
        await pausing


async def test_another_change_does_not_end_it() -> None:
    pauses = Pauses()
    pausing = asyncio.ensure_future(pauses.pause(lambda: DAY_MS))
    for _ in range(3):
        await asyncio.sleep(0)
        pauses.settings_changed()
    await asyncio.sleep(0)
    assert not pausing.done()
    pausing.cancel()
