"""Messages on their way from the event loop to the thread of Kombu."""

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from roquet.kombu.consuming import DeliveryPipe, KombuDelivery

# Of `select`: its descriptors are below.
FD_SETSIZE: Final = 1024
FIRST, SECOND = (KombuDelivery(str(number), "images", {}) for number in range(2))


@pytest.fixture
def pipe() -> Iterator[DeliveryPipe]:
    found = DeliveryPipe()
    yield found
    found.close()


def test_they_come_in_order_and_then_none_does(pipe: DeliveryPipe) -> None:
    pipe.put(FIRST)
    pipe.put(SECOND)
    assert [pipe.take(0) for _ in range(3)] == [FIRST, SECOND, None]


@pytest.mark.own_process
def test_a_program_may_have_a_thousand_files_open() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4096), most))
    with ExitStack() as files:
        while files.enter_context(Path(os.devnull).open()).fileno() < FD_SETSIZE:
            pass
        pipe = DeliveryPipe()
        files.callback(pipe.close)
        pipe.put(FIRST)
        assert [pipe.take(0.01) for _ in range(2)] == [FIRST, None]


def test_a_byte_that_comes_after_its_message_was_taken_ends_no_wait(
    pipe: DeliveryPipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[tuple[int, bytes]] = []
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda *words: late.append(words))
        pipe.put(FIRST)
    assert pipe.take(0) == FIRST
    os.write(*late[0])
    sender = threading.Timer(0.05, pipe.put, [SECOND])
    sender.start()
    assert pipe.take(30.0) == SECOND
    sender.join()
    assert pipe.take(0) is None
