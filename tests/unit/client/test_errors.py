"""Errors keep their facts when they are copied or cross a process."""

import copy
import pickle

import pytest

from roquet.client.errors import (
    ClientError,
    NotYetSafe,
    OffsetsGone,
    SendFailed,
    SendForbidden,
    SendImpossible,
    SendRefused,
    SendUnknown,
    SomeFailed,
)
from roquet.client.producer.receipt import SendReceipt
from roquet.client.queue_ref import QueueRef
from roquet.errors import RoquetError
from roquet.protocol.codes import ResponseCode

RECEIPT = SendReceipt("id", QueueRef("t", "a", 3), 17, "offset id")

ERRORS = [
    SendFailed("t", "nobody there"),
    SendRefused("t", "busy", 2),
    SendImpossible("t", "no such topic"),
    SendUnknown("t", "silence"),
    NotYetSafe("t", "slow disk", (RECEIPT,)),
    SomeFailed([RECEIPT, SendFailed("t", "nobody there")]),
    OffsetsGone(QueueRef("t", "a", 3), (1, 5), (7, 9)),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_the_same_after_a_copy_and_after_a_journey(error: ClientError) -> None:
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301
        assert type(other) is type(error)
        assert str(other) == str(error)
        assert vars(other).keys() == vars(error).keys()


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
def test_nobody_is_told_to_send_again_what_would_be_refused_again(error: SendFailed) -> None:
    assert not error.may_pass
    assert "may be sent again" not in str(error)
    assert "sending again is no use" in str(error)


def test_texts_say_what_may_be_done() -> None:
    assert "may be sent again" in str(SendRefused("t", "busy", 2))
    assert "may store it twice" in str(SendUnknown("t", "silence"))
    assert "offset 17 of queue 3" in str(NotYetSafe("t", "slow disk", (RECEIPT,)))
