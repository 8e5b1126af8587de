"""Errors keep their facts when they are copied or cross a process."""

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from importlib import import_module
from multiprocessing import get_context
from pkgutil import walk_packages

import pytest

import roquet
from roquet.client.errors import (
    BadAddress,
    BadArgument,
    ClientError,
    NoNameServer,
    NoReply,
    NotOpen,
    NotYetSafe,
    OffsetsGone,
    RequestRefused,
    SendFailed,
    SendForbidden,
    SendImpossible,
    SendRefused,
    SendUnknown,
    SomeFailed,
    TopicNotFound,
    Unreachable,
    UsedAfterFork,
    WrongLoop,
)
from roquet.client.producer.receipt import SendReceipt
from roquet.client.push.outcome import DeadLetter, RetryLater
from roquet.client.queue_ref import QueueRef
from roquet.errors import RoquetError
from roquet.net.errors import AddressTaken, CallTimedOut
from roquet.protocol.codes import ResponseCode

RECEIPT = SendReceipt("id", QueueRef("t", "a", 3), 17, "offset id")

ERRORS: list[RoquetError] = [
    NoReply("t", 3.0, RECEIPT),
    NotOpen("producer", was_open=True),
    UsedAfterFork("producer", 1, 2),
    WrongLoop("producer"),
    RetryLater(timedelta(seconds=5), done_count=2),
    RetryLater(delay_level=3),
    DeadLetter("no use", done_count=1),
    NoNameServer(["nobody", "nobody else"]),
    TopicNotFound("t", "create it", is_missing=False),
    RequestRefused("a:1", 2, None),
    Unreachable("a", "silent"),
    BadAddress("x"),
    BadArgument("no"),
    AddressTaken("127.0.0.1", 9876),
    CallTimedOut("a:1", 10, 3.0, 2.5),
    SendFailed("t", "nobody there"),
    SendRefused("t", "busy", 2),
    SendImpossible("t", "no such topic"),
    SendUnknown("t", "silence"),
    NotYetSafe("t", "slow disk", (RECEIPT,)),
    SomeFailed([RECEIPT, SendFailed("t", "nobody there")]),
    OffsetsGone(QueueRef("t", "a", 3), (1, 5), (7, 9)),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_the_same_after_a_copy_and_after_a_journey(error: RoquetError) -> None:
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301
        assert type(other) is type(error)
        assert str(other) == str(error)
        assert vars(other).keys() == vars(error).keys()


def test_every_error_crosses_processes() -> None:
    modules = [each.name for each in walk_packages(roquet.__path__, "roquet.")]
    for name in modules:
        if name.rpartition(".")[2] in {"errors", "outcome"}:
            import_module(name)
    kinds = all_kinds(RoquetError)
    assert len(kinds) > 100
    for kind in kinds:
        error = kind.__new__(kind)
        error.args, error.__dict__ = ("text", 7), {"fact": 17}
        other = pickle.loads(pickle.dumps(error))  # noqa: S301
        assert (type(other), other.args, vars(other)) == (kind, ("text", 7), {"fact": 17})


def all_kinds(kind: type[RoquetError]) -> set[type[RoquetError]]:
    """Of modules; those that tests define inside functions cannot be pickled by anyone."""
    kinds = {each for below in kind.__subclasses__() for each in all_kinds(below)} | {kind}
    return {each for each in kinds if "<locals>" not in each.__qualname__}


def test_a_process_pool_hands_them_on() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        error = pool.submit(_fail).exception(timeout=60)
    assert isinstance(error, NotOpen)


def _fail() -> None:
    raise NotOpen("producer", was_open=False)


def test_they_are_what_python_programs_catch() -> None:
    assert issubclass(NoReply, TimeoutError)
    assert issubclass(BadArgument, ValueError)
    assert issubclass(Unreachable, ConnectionError)
    assert issubclass(BadAddress, ClientError)
    assert str(AddressTaken("127.0.0.1", 9876)).startswith("another process listens")


def test_failed_and_unknown_are_never_the_same() -> None:
    assert not issubclass(SendFailed, SendUnknown)
    assert not issubclass(SendUnknown, SendFailed)
    assert issubclass(NotYetSafe, SendUnknown)
    assert all(isinstance(error, RoquetError) for error in ERRORS)


@pytest.mark.parametrize(
    "error",
    [
        SendRefused("t", "too large", ResponseCode.MESSAGE_ILLEGAL),
        SendRefused("t", "not for you", ResponseCode.NO_PERMISSION),
        SendRefused("t", "unknown", ResponseCode.TOPIC_NOT_EXIST),
        SendImpossible("t", "no such topic"),
        SendForbidden("t", "says the hook"),
    ],
    ids=str,
)
def test_no_sender_is_asked_to_retry_what_would_be_refused_again(error: SendFailed) -> None:
    assert not error.may_pass
    assert "may be sent again" not in str(error)
    assert "sending again is no use" in str(error)


def test_texts_say_what_may_be_done() -> None:
    assert "may be sent again" in str(SendRefused("t", "busy", 2))
    assert "may store it twice" in str(SendUnknown("t", "silence"))
    assert "offset 17 of queue 3" in str(NotYetSafe("t", "slow disk", (RECEIPT,)))
