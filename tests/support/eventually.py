"""Waiting for a condition that another peer or task brings about."""

import asyncio
import time
from collections.abc import Callable


async def eventually(condition: Callable[[], object], patience_s: float = 30.0) -> None:
    """Lets the loop run until `condition` holds; a test that waits too long fails here."""
    async with asyncio.timeout(patience_s):
        # Conditions are plain state of the code under test, which has no event to wait on.
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def wait_until(condition: Callable[[], object], patience_s: float = 60.0) -> None:
    """The same for tests without a loop, which wait for other processes."""
    deadline_s = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline_s, f"still waiting after {patience_s:g} s"
        time.sleep(0.02)


def happens(condition: Callable[[], object], patience_s: float = 60.0) -> bool:
    """Whether it does so in time: for those who note that it did not, and go on."""
    deadline_s = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.05)
    return True


def let_run(duration_s: float) -> None:
    """Other processes go on for so long: faults and observations have a duration."""
    time.sleep(duration_s)
