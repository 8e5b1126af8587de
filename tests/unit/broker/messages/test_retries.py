"""When a message comes again, and when it is given up."""

import pytest

from roquet.broker.messages.appending import next_level, retry_count_max, sent_back
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.codes import VERSION_3_4_9, RequestCode
from roquet.protocol.command import Command
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.record import read_record
from tests.support.drafts import draft


def stored(properties: dict[str, str], physical_offset: int = 0) -> StoredMessage:
    message = draft(properties=properties, has_checksum=False)
    record = bytearray(message.size)
    message.write(record, 0, 0, physical_offset, 1_700_000_000_000)
    return read_record(record)


@pytest.mark.parametrize(
    ("retry_count", "count_max", "asked_level", "level"),
    [
        (0, 16, 0, 3),  # the broker decides: 10 s, 30 s, 1 m, ...
        (1, 16, 0, 4),
        (15, 16, 0, 18),
        (16, 16, 0, None),  # that was the last try
        (17, 16, 0, None),
        (0, 16, 5, 5),  # the consumer decides
        (16, 16, 5, None),
        (0, 16, -1, None),  # the consumer gives up
        (0, 0, 0, None),
        (0, -1, 0, None),
    ],
)
def test_the_level_of_the_next_try(
    retry_count: int, count_max: int, asked_level: int, level: int | None
) -> None:
    assert next_level(retry_count, count_max, asked_level) == level


@pytest.mark.parametrize(
    ("version", "asked", "count_max"),
    [
        (VERSION_3_4_9, 5, 5),
        (VERSION_3_4_9, None, 16),
        (VERSION_3_4_9, 0, 0),
        (VERSION_3_4_9 - 1, 5, 16),
    ],
)
def test_newer_clients_say_how_often_they_try(
    version: int, asked: int | None, count_max: int
) -> None:
    command = Command(RequestCode.CONSUMER_SEND_MSG_BACK, version=version)
    assert retry_count_max(GroupConfig(group_name="g"), command, asked) == count_max


def test_a_message_remembers_where_it_came_from_the_first_time() -> None:
    first = stored({"TAGS": "red", "WAIT": "true"}, physical_offset=0xABC)
    back = stored(
        {"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "FIRST", "DELAY": "3"}, physical_offset=7
    )
    assert sent_back(first, "%RETRY%g", 0, 3).with_properties(TAGS=None).properties == (
        "WAIT\x01false\x02DELAY\x013\x02RETRY_TOPIC\x01TopicA"
        "\x02ORIGIN_MESSAGE_ID\x017F00000100002A9F0000000000000ABC"
    )
    assert sent_back(back, "%RETRY%g", 0, 4).properties == (
        "RETRY_TOPIC\x01orders\x02ORIGIN_MESSAGE_ID\x01FIRST\x02DELAY\x014\x02WAIT\x01false"
    )
