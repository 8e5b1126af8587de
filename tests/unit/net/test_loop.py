"""The process around the loop."""

import asyncio
import gc
import os
import resource
import signal
from collections.abc import Iterator

import pytest
import uvloop

from roquet.net.epoll_loop import EpollLoop
from roquet.net.loop import (
    raise_file_limit,
    relax_garbage_collection,
    run,
    run_server,
    stop_signals,
)


async def running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_clients_and_servers_have_a_fast_loop() -> None:
    assert isinstance(run(running_loop()), uvloop.Loop)
    assert isinstance(run_server(running_loop()), EpollLoop)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_signals_ask_to_stop(number: signal.Signals) -> None:
    with stop_signals() as stop:
        os.kill(os.getpid(), number)
        async with asyncio.timeout(10):
            await stop.wait()
    assert stop.is_set()


def test_the_file_limit_is_raised_to_what_the_system_allows() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[0] - 1, before[1]))
        raise_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def _collector() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


@pytest.mark.usefixtures("_collector")
def test_what_exists_at_start_is_not_searched_for_garbage() -> None:
    relax_garbage_collection()
    assert gc.get_freeze_count() > 1_000
    assert gc.get_threshold()[0] >= 10_000
