"""Waiting for a condition that another peer or task brings about."""

import asyncio
from collections.abc import Callable


async def eventually(condition: Callable[[], object], patience_s: float = 10.0) -> None:
    """Lets the loop run until `condition` holds; a test that waits too long fails here."""
    async with asyncio.timeout(patience_s):
        # Conditions are plain state of the code under test, which has no event to wait on.
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
