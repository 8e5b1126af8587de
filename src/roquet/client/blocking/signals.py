"""Waiting for the signals that end a program, without an event loop."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from roquet.client.errors import BadArgument

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_signals(who: Callable[..., object]) -> Iterator[Callable[[], object]]:
    """Gives a function that waits for SIGINT or SIGTERM. After the first one they do again what
    they did before, so that a second Ctrl-C ends a program whose end takes too long.

    Raises BadArgument outside of the main thread; `who` wants to know.
    """
    if threading.current_thread() is not threading.main_thread():
        raise BadArgument(
            f"{who.__name__}() belongs to the main thread, which gets signals; in others use `with`"
        )
    # Not an event: a handler may run while the thread that waits holds the event's own lock.
    gate = threading.Lock()
    gate.acquire()
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def on_signal(_number: int, _frame: object) -> None:
        restore()
        if gate.locked():
            gate.release()

    for number in _SIGNALS:
        signal.signal(number, on_signal)
    try:
        yield gate.acquire
    finally:
        restore()
