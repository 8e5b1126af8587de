import pytest

from roquet.protocol.errors import BadMessage, TooLarge
from roquet.protocol.java_hash import java_hash
from roquet.protocol.messages.batch_writing import encode_batch
from roquet.protocol.messages.properties import PROPERTIES_SIZE_MAX
from roquet.protocol.messages.record import CHECKSUM_SIZE, split_records
from roquet.protocol.messages.record_batches import DraftBatch, RecordBatch, SentBatch
from tests.support.drafts import draft
from tests.support.raising import raises
from tests.support.records import batch_records

CLUSTER = {"CLUSTER": "c"}


def sent(*items: tuple[int, bytes, bytes]) -> SentBatch:
    return SentBatch(draft(b"", properties=CLUSTER), encode_batch(items))


def test_records_have_consecutive_offsets_and_lie_one_behind_the_other() -> None:
    batch = sent((1, b"a", b"A\x011"), (2, b"bc", b""))
    first, second = split_records(batch_records(batch, 7, 1000))
    assert [(each.flag, each.body, each.queue_offset) for each in (first, second)] == [
        (1, b"a", 7),
        (2, b"bc", 8),
    ]
    assert (first.physical_offset, second.physical_offset) == (1000, 1000 + first.size)
    assert batch.sizes == [first.size, second.size]
    assert batch.size == first.size + second.size
    assert batch.body_size == 3


def test_common_properties_come_behind_those_of_a_message() -> None:
    batch = sent((0, b"", b"A\x011"), (0, b"", b"B\x012\x02"))
    found = [
        each.raw_properties[:-CHECKSUM_SIZE] for each in split_records(batch_records(batch, 0, 0))
    ]
    assert found == [b"A\x011\x02CLUSTER\x01c\x02", b"B\x012\x02CLUSTER\x01c\x02"]


def test_properties_of_a_message_may_fill_its_record_to_the_last_byte() -> None:
    room = PROPERTIES_SIZE_MAX - CHECKSUM_SIZE - len(b"A\x01\x02CLUSTER\x01c\x02")
    fitting = sent((0, b"", b"A\x01" + b"x" * room))
    assert split_records(batch_records(fitting, 0, 0))[0].properties["A"] == "x" * room
    with raises(TooLarge, what="properties", size=32768):
        sent((0, b"", b"A\x01" + b"x" * (room + 1)))


@pytest.mark.parametrize(
    "batch",
    [
        sent((0, b"", b"TAGS\x01a"), (0, b"", b"K\x01v\x02TAGS\x01b"), (0, b"", b"K\x01v")),
        DraftBatch(
            [
                draft(b"", properties={"TAGS": "a"}),
                draft(b"", properties={"K": "v", "TAGS": "b"}),
                draft(b"", properties={"K": "v"}),
            ]
        ),
    ],
)
def test_the_queue_learns_the_tags(batch: RecordBatch) -> None:
    assert batch.tags_codes == [java_hash("a"), java_hash("b"), 0]


def test_a_tag_of_the_whole_batch_counts_before_those_of_its_messages() -> None:
    batch = SentBatch(
        draft(b"", properties={"TAGS": "all"}), encode_batch([(0, b"", b"TAGS\x01own")])
    )
    (record,) = split_records(batch_records(batch, 0, 0))
    assert batch.tags_codes == [java_hash("all")]
    assert record.properties["TAGS"] == "all"


@pytest.mark.parametrize("cut", [1, 19, 21, 22])
def test_a_batch_that_ends_within_a_message_is_refused(cut: int) -> None:
    body = encode_batch([(0, b"ab", b"A\x01b")])
    with pytest.raises(BadMessage):
        SentBatch(draft(b""), body + body[:cut])
