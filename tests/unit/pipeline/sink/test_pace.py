"""Messages go as fast as they may, on average, and not faster."""

import asyncio

from roquet.pipeline.sink.pace import Pace


async def test_without_a_limit_nobody_waits() -> None:
    pace = Pace(None)
    async with asyncio.timeout(10):
        await asyncio.gather(*(pace.admit(10**9) for _ in range(100)))
    assert not pace.has_limit


async def test_the_first_goes_at_once_and_the_others_in_their_turn() -> None:
    loop = asyncio.get_running_loop()
    pace, went_s = Pace(1000), list[float]()
    started_s = loop.time()

    async def go() -> None:
        await pace.admit(100)
        went_s.append(loop.time() - started_s)

    await asyncio.gather(*(go() for _ in range(4)))
    # Whoever waits for others does not go before them.
    assert went_s == sorted(went_s)
    for number, each in enumerate(went_s):
        assert each >= number * 0.1 - 0.01
