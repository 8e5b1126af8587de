"""The process around the event loop: which loop, when it stops, how it collects garbage."""

import asyncio
import gc
import resource
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

T = TypeVar("T")

# Requests leave no reference cycles, so frequent collections find nothing.
_GC_THRESHOLDS: Final = (50_000, 50, 50)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs `main` on the loop that is fastest for clients: uvloop."""
    return _run(main, _client_loop)


def run_server(main: Coroutine[Any, Any, T]) -> T:
    """Runs `main` on the loop that is fastest for servers, and smallest."""
    return _run(main, _server_loop)


def _run(main: Coroutine[Any, Any, T], new_loop: Callable[[], asyncio.AbstractEventLoop]) -> T:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


def _client_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # noqa: PLC0415  A server does without it.
    except ImportError:  # Not built for every platform; the standard loop is a third slower.
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _server_loop() -> asyncio.AbstractEventLoop:
    try:
        from roquet.net.epoll_loop import EpollLoop  # noqa: PLC0415
    except ImportError:  # Only Linux has epoll.
        return _client_loop()
    return EpollLoop()


@contextmanager
def stop_signals() -> Iterator[asyncio.Event]:
    """An event that SIGINT and SIGTERM set while the block runs."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


@contextmanager
def on_hangup(reload: Callable[[], None]) -> Iterator[None]:
    """Calls `reload` for every SIGHUP while the block runs."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, reload)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)


def raise_file_limit() -> None:
    """Every connection is a descriptor; a server takes as many as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def relax_garbage_collection() -> None:
    """Called once a server is up: objects that exist now are not collected again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
