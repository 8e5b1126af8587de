"""Commands that go on until somebody has seen enough."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from roquet.net.loop import stop_signals


async def until_stopped(work: Coroutine[Any, Any, object]) -> None:
    """Returns when `work` is done, or cancels it after SIGINT or SIGTERM: that is no failure."""
    with stop_signals() as stop:
        working = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working
