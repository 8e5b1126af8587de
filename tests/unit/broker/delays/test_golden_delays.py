"""Delayed, delivered, retried and dead messages lie in the store as real Apache brokers write them.

Golden stores hold messages before and after each step. The step is done again by our code, on
the message before it, and has to give the one after it: field by field, properties as a map,
because Java writes them in no order.
"""

from collections.abc import AsyncIterator, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from roquet.broker.delays.delivering import redelivery
from roquet.broker.delays.postponing import postponed
from roquet.broker.messages.appending import NewMessage, next_level, sent_back
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.properties import parse_properties
from roquet.protocol.messages.record import read_record
from roquet.protocol.names import DLQ_PREFIX, SCHEDULE_TOPIC
from tests.support.broker_bed import BrokerBed, broker_bed
from tests.support.golden_records import GoldenRecord, golden_records

STORES = ("v49_clean", "v49_crashed", "v55_clean", "v55_crashed")


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[BrokerBed]:
    async with broker_bed(tmp_path) as started:
        yield started


class Golden(NamedTuple):
    message: StoredMessage
    record: bytes

    @property
    def key(self) -> tuple[str, int]:
        """A message keeps its id on all its ways, and counts how often it failed."""
        return self.message.properties["UNIQ_KEY"], self.message.reconsume_times


@cache
def golden(store: str) -> tuple[Golden, ...]:
    found = (Golden(read_record(each.data), each.data) for each in records_of(store))
    return tuple(each for each in found if "UNIQ_KEY" in each.message.properties)


def records_of(store: str) -> Iterator[GoldenRecord]:
    return (each for each in golden_records() if each.store == store)


def waiting(store: str) -> list[Golden]:
    return [each for each in golden(store) if each.message.topic == SCHEDULE_TOPIC]


def failed(store: str) -> list[Golden]:
    """What was sent back: on its way to be tried again, or dead."""
    return [
        each
        for each in golden(store)
        if "RETRY_TOPIC" in each.message.properties
        and (each.message.topic == SCHEDULE_TOPIC or each.message.topic.startswith(DLQ_PREFIX))
    ]


def fields_of(message: NewMessage | StoredMessage) -> dict[str, object]:
    """All that a sender decides; the properties as a map."""
    text = message.properties if isinstance(message, NewMessage) else message.property_text
    same = ("topic", "queue_id", "body", "flag", "sys_flag", "reconsume_times")
    hosts = ("born_timestamp", "born_host", "store_host", "prepared_transaction_offset")
    members: dict[str, object] = {name: getattr(message, name) for name in (*same, *hosts)}
    return members | {"properties": parse_properties(text)}


def as_sent(stored: StoredMessage) -> NewMessage:
    """The send that became a delayed message; the golden ones kept what level was asked for."""
    properties = stored.properties
    return replace(
        NewMessage.copy_of(stored),
        topic=properties["REAL_TOPIC"],
        queue_id=int(properties["REAL_QID"]),
    ).with_properties(
        REAL_TOPIC=None, REAL_QID=None, DELAY=properties.get("lvl", properties["DELAY"])
    )


@pytest.mark.parametrize("store", STORES)
async def test_a_delayed_message_waits_as_apache_lets_it_wait(bed: BrokerBed, store: str) -> None:
    assert len(waiting(store)) >= 14
    assert "99" in {each.message.properties.get("lvl") for each in waiting(store)}
    for each in waiting(store):
        ours = postponed(bed.broker, as_sent(each.message))
        assert ours is not None
        assert fields_of(ours) == fields_of(each.message)


@pytest.mark.parametrize("store", STORES)
def test_a_delivered_message_is_byte_for_byte_what_apache_delivers(store: str) -> None:
    before = {each.key: each.record for each in waiting(store)}
    delivered = [
        each
        for each in golden(store)
        if each.key in before
        and each.message.topic == each.message.properties.get("REAL_TOPIC")
        and each.message.properties["DELAY"] != "0"
    ]
    assert len(delivered) >= 9
    for each in delivered:
        draft = redelivery(before[each.key], has_checksum=False)
        ours = bytearray(draft.size)
        message = each.message
        place = (message.queue_offset, message.physical_offset, message.store_timestamp)
        draft.write(ours, 0, *place)
        assert bytes(ours) == each.record


@pytest.mark.parametrize("store", STORES)
async def test_a_message_that_is_sent_back_looks_as_apache_sends_it_back(
    bed: BrokerBed, store: str
) -> None:
    # Where a consumer gets a message from: not from where it waits.
    consumed = {
        each.key: each.message for each in golden(store) if each.message.topic != SCHEDULE_TOPIC
    }
    assert {each.message.topic.startswith(DLQ_PREFIX) for each in failed(store)} == {True, False}
    for each in failed(store):
        key, retry_count = each.key
        source = consumed[key, retry_count - 1]
        # The golden consumers asked for level 1, and gave up after two tries.
        level = next_level(source.reconsume_times, 2, 1)
        if level is None:
            ours = sent_back(source, each.message.topic, 0, None)
            assert postponed(bed.broker, ours) is None
        else:
            retry_topic = each.message.properties["REAL_TOPIC"]
            moved = postponed(bed.broker, sent_back(source, retry_topic, 0, level))
            assert moved is not None
            ours = moved
        assert fields_of(ours) == fields_of(each.message)
