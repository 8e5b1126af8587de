"""The fast path reads every field of a send as its header declares it, or leaves the send."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.frame_decoder import FrameDecoder
from roquet.protocol.headers.messages import SendMessageHeaderV2
from tests.support.broker_bed import BrokerBed, broker_bed
from tests.support.fast_path_traffic import by_names, command, frame_of, send_fields

FIELDS = msgspec.structs.fields(SendMessageHeaderV2)
TEXTS = [each.encode_name for each in FIELDS if each.type in (str, str | None)]
OTHERS = [each.encode_name for each in FIELDS if each.type not in (str, str | None)]
NEEDED = [each.encode_name for each in FIELDS if each.required]


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[BrokerBed]:
    async with broker_bed(tmp_path) as bed:
        bed.broker.tables.topics.update(TopicConfig(topic_name="TopicA"))
        bed.put(b"first")
        yield bed


def is_taken(bed: BrokerBed, fields: dict[str, object], code: int = 310) -> bool:
    frames = FrameDecoder().whole(frame_of(command(code, fields, 1), b"body"))
    bed.fast_path.take(bed.connect().connection, frames, [], 1 << 20)
    return frames.position == frames.end


def usual() -> dict[str, object]:
    return send_fields("TopicA", "0", "")


async def test_the_usual_fields_are_taken(bed: BrokerBed) -> None:
    assert is_taken(bed, usual())


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("text", ["x", "", " 1", "99999999999999999999"])
async def test_a_field_that_is_no_text_must_be_readable(
    bed: BrokerBed, name: str, text: str
) -> None:
    assert not is_taken(bed, usual() | {name: text})


@pytest.mark.parametrize("name", sorted({*TEXTS} - {"b"}))
async def test_unused_texts_may_be_anything(bed: BrokerBed, name: str) -> None:
    assert is_taken(bed, usual() | {name: "any text: {}"})


@pytest.mark.parametrize("name", NEEDED)
async def test_a_field_that_is_missing_is_missed(bed: BrokerBed, name: str) -> None:
    fields = usual()
    del fields[name]
    assert not is_taken(bed, fields)


async def test_code_10_has_names_instead_of_letters(bed: BrokerBed) -> None:
    assert is_taken(bed, by_names(usual()), 10)
    assert not is_taken(bed, usual(), 10)
    assert not is_taken(bed, by_names(usual()))


async def test_fields_that_are_not_declared_are_passed_over(bed: BrokerBed) -> None:
    assert is_taken(bed, usual() | {"Signature": "x", "AccessKey": "y", "z": "z"})


@pytest.mark.parametrize(("name", "value"), [("e", "-1"), ("f", "4"), ("f", "12"), ("e", "16")])
async def test_what_wants_a_decision_is_left(bed: BrokerBed, name: str, value: str) -> None:
    assert not is_taken(bed, usual() | {name: value})


DELAYED = "KEYS\x01k\x02DELAY\x012"
HALF = "TRAN_MSG\x01true\x02PGROUP\x01g"


@pytest.mark.parametrize(("properties", "flag"), [(DELAYED, "0"), (HALF, "4"), (HALF, "0")])
async def test_what_waits_is_taken_where_another_one_waits(
    bed: BrokerBed, properties: str, flag: str
) -> None:
    fields = send_fields("TopicA", "0", properties, f=flag)
    assert not is_taken(bed, fields)
    bed.connect().connection.data_received(frame_of(command(310, fields, 1), b"body"))
    assert is_taken(bed, fields)


@pytest.mark.parametrize(
    ("properties", "flag"),
    [
        (DELAYED, "4"),
        (f"{DELAYED}\x02{HALF}", "0"),
        ("TRAN_MSG\x01true", "4"),
        ("DELAY\x0102", "0"),
        ("DELAY\x0199", "0"),
        ("DELAY\x012\x02DELAY\x012", "0"),
        ("DELAY\x012\x02REAL_QID\x011", "0"),
        ("DELAY\x012\x02TIMER_DELAY_SEC\x015", "0"),
        ("DELAY\x012\x02a\x01", "0"),
    ],
)
async def test_what_waits_for_more_is_left(bed: BrokerBed, properties: str, flag: str) -> None:
    for each in (DELAYED, HALF):
        fields = send_fields("TopicA", "0", each)
        bed.connect().connection.data_received(frame_of(command(310, fields, 1), b"body"))
    assert not is_taken(bed, send_fields("TopicA", "0", properties, f=flag))


async def test_a_message_is_sent_back_where_another_one_waits(bed: BrokerBed) -> None:
    await bed.connect().beat("one", reads={"g": ["TopicA"]})
    offset = bed.broker.store.log_end
    assert is_taken(bed, usual())
    fields: dict[str, object] = {"offset": str(offset), "group": "g", "delayLevel": "2"}
    assert not is_taken(bed, fields, 36)
    delayed = send_fields("TopicA", "0", DELAYED)
    bed.connect().connection.data_received(frame_of(command(310, delayed, 1), b"body"))
    assert is_taken(bed, fields, 36)
    for change in (
        {"delayLevel": "-1"},  # It is given up.
        {"maxReconsumeTimes": "0"},
        {"delayLevel": "x"},
        {"offset": str(offset + 1)},
        {"offset": "999999"},
        {"group": "unknown"},
        {"unitMode": "x"},
    ):
        assert not is_taken(bed, fields | change, 36), change
