"""The fast path reads every field of a pull as its header declares it, or leaves the pull."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.frame_decoder import FrameDecoder
from roquet.protocol.headers.messages import PullMessageHeader
from tests.support.broker_bed import BrokerBed, broker_bed
from tests.support.fast_path_traffic import command, frame_of

FIELDS = msgspec.structs.fields(PullMessageHeader)
OTHERS = [each.encode_name for each in FIELDS if each.type not in (str, str | None)]
NEEDED = [each.encode_name for each in FIELDS if each.required]


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[BrokerBed]:
    async with broker_bed(tmp_path) as bed:
        bed.broker.tables.topics.update(TopicConfig(topic_name="TopicA"))
        bed.broker.tables.groups.find_or_create("readers", may_create=True)
        bed.put(b"first")
        yield bed


def is_taken(bed: BrokerBed, fields: dict[str, object]) -> bool:
    frames = FrameDecoder().whole(frame_of(command(11, fields, 1)))
    bed.fast_path.take(bed.connect().connection, frames, [], 1 << 20)
    return frames.position == frames.end


def usual() -> dict[str, object]:
    return {
        "consumerGroup": "readers",
        "topic": "TopicA",
        "queueId": "0",
        "queueOffset": "0",
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "15000",
        "subVersion": "0",
        "subscription": "*",
        "expressionType": "TAG",
    }


async def test_the_usual_fields_are_taken(bed: BrokerBed) -> None:
    assert is_taken(bed, usual())


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("text", ["x", "", " 1", "99999999999999999999"])
async def test_a_field_that_is_no_text_must_be_readable(
    bed: BrokerBed, name: str, text: str
) -> None:
    assert not is_taken(bed, usual() | {name: text})


@pytest.mark.parametrize("name", NEEDED)
async def test_a_field_that_is_missing_is_missed(bed: BrokerBed, name: str) -> None:
    fields = usual()
    del fields[name]
    assert not is_taken(bed, fields)


async def test_fields_that_are_not_declared_or_not_needed_are_passed_over(bed: BrokerBed) -> None:
    others = {"Signature": "x", "AccessKey": "y", "ReqT": "0", "bname": "b", "ns": "n"}
    assert is_taken(bed, usual() | others | {"proxyFrowardClientId": "c", "maxMsgBytes": "262144"})


@pytest.mark.parametrize(
    "changed",
    [
        {"consumerGroup": "nobody"},
        {"topic": "nothing"},
        {"queueId": "-1"},
        {"queueId": "16"},
        {"expressionType": "SQL92", "subscription": "a > 1"},
        {"sysFlag": "0"},
    ],
    ids=str,
)
async def test_what_wants_a_decision_is_left(bed: BrokerBed, changed: dict[str, str]) -> None:
    assert not is_taken(bed, usual() | changed)
