"""Tests of this package run on the loops of programs, clients and servers, which differ."""

import asyncio
from collections.abc import Callable

import uvloop

from roquet.net.epoll_loop import EpollLoop


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop, "epoll": EpollLoop}
