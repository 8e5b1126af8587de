"""Messages for tests of listeners alone."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import roquet.testing
from roquet import BadArgument, Message, Topic
from roquet.testing import received
from tests.support.raising import raises


def test_a_received_message_has_what_was_sent() -> None:
    sent = Message("orders", b"one tea", "new", ("order-1", "tea"), {"city": "Rome"}, flag=7)
    message = received(sent)
    assert (message.topic, message.body, message.tags) == ("orders", b"one tea", "new")
    assert (message.keys, message.properties["city"]) == (("order-1", "tea"), "Rome")
    assert (message.flag, message.retry_count, message.queue.topic) == (7, 0, "orders")
    assert datetime.now(UTC) - message.stored < timedelta(minutes=1)


def test_a_received_message_has_failed_as_often_as_wanted() -> None:
    assert received(Message("orders", b"one tea"), retry_count=3).retry_count == 3


def test_each_received_message_has_an_id_of_its_own_unless_one_is_given() -> None:
    message = Message("orders", b"one tea")
    assert received(message).message_id != received(message).message_id
    assert received(Message("orders", b"x", message_id="one")).message_id == "one"


def test_a_typed_message_is_received_as_its_listener_decodes_it() -> None:
    prices = Topic("prices", dict[str, int])
    assert prices.decode(received(prices({"tea": 3}))) == {"tea": 3}


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"message": "one tea"}, "message"),
        ({"message": Message("orders", b"")}, "body"),
        ({"message": Message("orders", b"x"), "retry_count": -1}, "retry_count"),
    ],
)
def test_what_could_not_be_sent_is_not_received(options: dict[str, Any], argument: str) -> None:
    with raises(BadArgument, argument=argument):
        received(**options)


def test_the_test_kit_lists_what_it_has_and_nothing_else() -> None:
    assert dir(roquet.testing) == sorted(roquet.testing.__all__)
    assert all(getattr(roquet.testing, name).__doc__ for name in dir(roquet.testing))


def test_a_received_message_loads_no_server() -> None:
    program = (
        "import sys; from roquet import Message; from roquet.testing import received;"
        "received(Message('orders', b'x')); print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"roquet.broker", "roquet.namesrv"}.isdisjoint(loaded)
