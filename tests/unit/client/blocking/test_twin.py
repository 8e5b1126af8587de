"""How blocking twins open and close, with a twin that says what happened to it."""

import threading

import pytest

from roquet import (
    Admin,
    AsyncAdmin,
    AsyncPopConsumer,
    AsyncProducer,
    AsyncPullConsumer,
    AsyncPushConsumer,
    AsyncTopicReader,
    AsyncTransactionProducer,
    PopConsumer,
    Producer,
    PullConsumer,
    PushConsumer,
    TopicReader,
    TransactionProducer,
)
from roquet.client.blocking.twin import BlockingTwin


class Twin:
    def __init__(self, *, fails_at: str = "") -> None:
        self.fails_at = fails_at
        self.calls: list[str] = []

    async def open(self) -> None:
        self._note("open")

    async def close(self) -> None:
        self._note("close")

    def _note(self, call: str) -> None:
        self.calls.append(f"{call} in {threading.current_thread().name}")
        if call == self.fails_at:
            raise LookupError(call)


def loop_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if "odd client" in each.name]


def test_the_twin_lives_in_one_thread_that_ends_with_it() -> None:
    twin = Twin()
    with BlockingTwin(twin, "odd client"):
        (thread,) = loop_threads()
    assert twin.calls == [f"open in {thread.name}", f"close in {thread.name}"]
    assert loop_threads() == []


def test_closing_twice_or_what_was_never_open_is_fine() -> None:
    twin = Twin()
    blocking = BlockingTwin(twin, "odd client")
    blocking.close()
    assert twin.calls == []
    blocking.open()
    blocking.close()
    blocking.close()
    assert len(twin.calls) == 2


@pytest.mark.parametrize("step", ["open", "close"])
def test_a_failure_is_raised_here_and_leaves_no_thread(step: str) -> None:
    with pytest.raises(LookupError, match=step), BlockingTwin(Twin(fails_at=step), "odd client"):
        pass
    assert loop_threads() == []


@pytest.mark.parametrize(
    ("blocking", "twin"),
    [
        (Admin, AsyncAdmin),
        (Producer, AsyncProducer),
        (PopConsumer, AsyncPopConsumer),
        (PullConsumer, AsyncPullConsumer),
        (PushConsumer, AsyncPushConsumer),
        (TopicReader, AsyncTopicReader),
        (TransactionProducer, AsyncTransactionProducer),
    ],
)
def test_every_method_says_what_it_does(blocking: type, twin: type) -> None:
    names = [name for name in dir(twin) if not name.startswith("_")]
    assert not [name for name in names if not hasattr(blocking, name)]
    assert not [name for name in names if not getattr(blocking, name).__doc__]
