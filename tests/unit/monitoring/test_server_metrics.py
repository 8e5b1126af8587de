"""By how much an event loop is late."""

import asyncio
import time

from roquet.monitoring.server_metrics import LoopLag
from tests.support.eventually import eventually


async def test_a_loop_that_was_held_up_was_late() -> None:
    lag = LoopLag()
    measuring = asyncio.create_task(lag.keep_measuring())
    await asyncio.sleep(0)
    busy_until_s = time.monotonic() + 0.4
    while time.monotonic() < busy_until_s:
        pass
    await eventually(lambda: lag.lags.count)
    measuring.cancel()
    assert lag.lags.total >= 0.25
