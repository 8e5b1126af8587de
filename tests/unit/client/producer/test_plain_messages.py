"""Messages with nothing but a body: ready as the ordinary way makes them, or left to that."""

from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given, strategies as st

from roquet.client.config import ProducerConfig
from roquet.client.errors import BadArgument
from roquet.client.producer.batching import size_of
from roquet.client.producer.outgoing import Ready, plain_ready
from roquet.client.producer.plain_messages import END, PlainMessages
from roquet.client.producer.request_reply import ReplyMessage
from roquet.protocol.messages.message import Message
from roquet.protocol.messages.message_id import UniqueIdMaker
from tests.support.fake_clock import FakeClock

TOPIC = "orders"
EQUAL_TOPIC = b"orders".decode()  # but another object
COMPRESSED_SIZE = 100
CONFIGS = [
    ProducerConfig(
        name_server="127.0.0.1:9876",
        group="shop",
        compress_over=COMPRESSED_SIZE,
        namespace=namespace,
    )
    for namespace in (None, "inn")
]


def ids() -> UniqueIdMaker:
    return UniqueIdMaker(bytes(4), 1, 1)


def plain_messages(config: ProducerConfig = CONFIGS[0]) -> PlainMessages:
    return PlainMessages(config, ids(), FakeClock())


def messages() -> st.SearchStrategy[Message]:
    """Most of them are plain, and each member may make one of them something else."""
    return st.builds(
        Message,
        st.sampled_from([TOPIC] * 8 + ["others", "", "no topic", 7, EQUAL_TOPIC]),
        st.sampled_from([b"x"] * 6 + [b"", b"y" * 99, b"y" * 100, bytearray(b"z"), "text", None]),
        st.sampled_from([None] * 8 + ["", "new", 7]),
        st.sampled_from([(), [], ("k",), "k", None]),
        st.sampled_from([{}, {}, {}, {"city": "Rome"}, {"TAGS": "x"}, None]),
        st.sampled_from([0, 0, 0, 0, 7, 2**40, "7"]),
    )


def ordinarily(message: Message, config: ProducerConfig) -> Ready | None:
    """None for what is refused, and for what does not fit the others of a part."""
    try:
        return plain_ready(message, ids().make(FakeClock().now_ms()), config)
    except BadArgument:
        return None


@pytest.mark.parametrize("config", CONFIGS)
@given(message=messages())
def test_a_plain_message_is_ready_as_any_other_would_be(
    config: ProducerConfig, message: Message
) -> None:
    ready = plain_messages(config).ready(message, TOPIC)
    if ready is not None:
        assert ready == ordinarily(message, config)
        assert message.topic == TOPIC
        assert len(message.body) < COMPRESSED_SIZE


def test_a_body_for_a_topic_is_plain() -> None:
    for config in CONFIGS:
        plain = plain_messages(config)
        assert plain.ready(Message(TOPIC, b"x"), TOPIC) is not None
        assert plain.ready(Message(EQUAL_TOPIC, b"x" * 99), TOPIC) is not None


@pytest.mark.parametrize(
    "message",
    [
        Message("others", b"x"),
        Message(TOPIC, b""),
        Message(TOPIC, b"x" * COMPRESSED_SIZE),
        Message(TOPIC, bytearray(b"x")),  # type: ignore[arg-type]
        Message(TOPIC, b"x", tags="new"),
        Message(TOPIC, b"x", keys=("k",)),
        Message(TOPIC, b"x", properties={"city": "Rome"}),
        Message(TOPIC, b"x", flag=1),
        ReplyMessage(TOPIC, b"x"),
        "x",
        None,
    ],
)
def test_everything_else_is_left_to_the_ordinary_way(message: Any) -> None:
    assert plain_messages().ready(message, TOPIC) is None


class Topic(StrEnum):
    ORDERS = "orders"


def test_a_topic_that_is_more_than_a_text_is_left_to_the_ordinary_way() -> None:
    message = Message(Topic.ORDERS, b"x")
    assert plain_messages().ready(message, Topic.ORDERS) is None
    part = [plain_ready(message, "1", CONFIGS[0])]
    assert plain_messages().fill(part, iter([message]), 10_000, 1000) == (message, 0)


def test_a_namespace_beyond_ascii_leaves_nothing_plain() -> None:
    config = ProducerConfig(name_server="127.0.0.1:9876", group="shop")
    object.__setattr__(config, "namespace", "größe")
    assert plain_messages(config).ready(Message(TOPIC, b"x"), TOPIC) is None


def test_a_part_is_filled_up_to_the_first_message_that_is_not_plain() -> None:
    part = [plain_ready(Message(TOPIC, b"first"), "1", CONFIGS[0])]
    other = Message(TOPIC, b"x", tags="new")
    source = iter([Message(TOPIC, b"1"), Message(TOPIC, b"22"), other, Message(TOPIC, b"3")])
    left, size = plain_messages().fill(part, source, 10_000, 1000)
    assert left is other
    assert [ready.message.body for ready in part] == [b"first", b"1", b"22"]
    assert size == sum(map(size_of, part[1:]))
    assert [message.body for message in source] == [b"3"]


@pytest.mark.parametrize(("spare", "count"), [(0, 3), (-1, 2)])
def test_a_part_is_filled_as_far_as_there_is_room(spare: int, count: int) -> None:
    first = plain_ready(Message(TOPIC, b"x"), ids().make(0), CONFIGS[0])
    part = [first]
    source = (Message(TOPIC, b"x") for _ in range(5))
    left, _ = plain_messages().fill(part, source, 2 * size_of(first) + spare, 1000)
    assert left == Message(TOPIC, b"x")
    assert len(part) == count


def test_a_part_is_filled_up_to_its_count() -> None:
    part = [plain_ready(Message(TOPIC, b"x"), "1", CONFIGS[0])]
    source = (Message(TOPIC, b"%d" % number) for number in range(5))
    left, _ = plain_messages().fill(part, source, 10_000, 4)
    assert left == Message(TOPIC, b"3")
    assert len(part) == 4


def test_whoever_fills_says_when_there_is_no_more() -> None:
    part = [plain_ready(Message(TOPIC, b"x"), "1", CONFIGS[0])]
    assert plain_messages().fill(part, iter(()), 10_000, 1000) == (END, 0)
