"""A message as a program gets it."""

from datetime import UTC, datetime

import pytest

from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage, received_messages
from roquet.protocol.errors import BadMessage
from tests.support.drafts import draft
from tests.support.records import changed, record_of


def received(topic: str = "orders", born_ms: int = 0, **properties: str) -> ReceivedMessage:
    made = changed(draft(topic=topic, properties=properties), born_timestamp=born_ms)
    (message,) = received_messages(record_of(made), QueueRef(topic, "a", 0))
    return message


def test_times_are_moments() -> None:
    message = received(born_ms=1_700_000_000_123)
    assert message.born == datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)
    assert message.stored.tzinfo is UTC


def test_a_time_that_is_none_is_nonsense() -> None:
    with pytest.raises(BadMessage, match="milliseconds"):
        _ = received(born_ms=2**62).born


@pytest.mark.parametrize("prefix", ["%RETRY%", "%DLQ%"])
def test_the_topic_is_the_one_it_was_sent_to(prefix: str) -> None:
    assert received(f"{prefix}billing", RETRY_TOPIC="orders").topic == "orders"
    assert received(f"{prefix}billing").topic == f"{prefix}billing"


def test_a_death_is_that_of_a_dead_letter() -> None:
    assert received(RETRY_TOPIC="orders").death is None
    assert received("%DLQ%billing").death == (None, None, 0)
    letter = received(
        "%DLQ%billing",
        DEAD_LETTER_REASON="rotten",
        DEAD_LETTER_ERROR="Bad",
        DEAD_LETTER_TRIES="3",
    )
    assert letter.death == ("rotten", "Bad", 3)


def test_a_message_is_shown_with_what_one_looks_for() -> None:
    message = received(TAGS="red", KEYS="k1 k2", UNIQ_KEY="7F01")
    shown = repr(message)
    for fact in ("id 7F01", "tags 'red'", "keys 'k1 k2'", "bytes", "try 1", "queue_id=0"):
        assert fact in shown
