"""Runs the two directions of a link, or of a lease, as tasks that end together.

Both ends of a link use it, and the failover participant.
"""

import asyncio
from collections.abc import Coroutine


async def run_until_first_fails(*directions: Coroutine[None, None, None]) -> None:
    """Runs until one of them fails, and raises its error. None of them returns by itself.

    Not a TaskGroup: that of Python 3.11 forgets that it was cancelled when a task fails just then.
    """
    tasks = [asyncio.ensure_future(each) for each in directions]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        # They wait at a socket or a pause, so this takes no time.
        await asyncio.gather(*tasks, return_exceptions=True)
