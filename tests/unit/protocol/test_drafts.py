import pytest

from roquet.protocol.drafts import DraftBatch, SentBatch
from roquet.protocol.errors import BadMessage, TooLarge
from roquet.protocol.properties import PROPERTIES_SIZE_MAX
from roquet.protocol.record import CHECKSUM_SIZE, split_records
from tests.support.drafts import draft

CLUSTER = {"CLUSTER": "c"}


def test_records_have_consecutive_offsets_and_lie_one_behind_the_other() -> None:
    batch = SentBatch(draft(b"", properties=CLUSTER), [(1, b"a", b"A\x011"), (2, b"bc", b"")])
    first, second = split_records(batch.pack(7, 1000, 5))
    assert [(each.flag, each.body, each.queue_offset) for each in (first, second)] == [
        (1, b"a", 7),
        (2, b"bc", 8),
    ]
    assert (first.physical_offset, second.physical_offset) == (1000, 1000 + first.size)
    assert batch.sizes == [first.size, second.size]
    assert batch.body_size == 3


def test_common_properties_come_behind_those_of_a_message() -> None:
    batch = SentBatch(
        draft(b"", properties=CLUSTER), [(0, b"", b"A\x011"), (0, b"", b"B\x012\x02")]
    )
    assert batch.properties == [b"A\x011\x02CLUSTER\x01c\x02", b"B\x012\x02CLUSTER\x01c\x02"]


def test_properties_of_a_message_may_fill_its_record_to_the_last_byte() -> None:
    common = draft(b"", properties=CLUSTER)
    room = PROPERTIES_SIZE_MAX - CHECKSUM_SIZE - len(b"A\x01\x02CLUSTER\x01c\x02")
    fitting = SentBatch(common, [(0, b"", b"A\x01" + b"x" * room)])
    assert split_records(fitting.pack(0, 0, 0))[0].properties["A"] == "x" * room
    with pytest.raises(TooLarge, match="properties of 32768"):
        SentBatch(common, [(0, b"", b"A\x01" + b"x" * (room + 1))])


@pytest.mark.parametrize("make", ["sent", "drafts"])
def test_a_number_that_does_not_fit_its_field_makes_no_batch(make: str) -> None:
    bad = draft(b"")
    bad.flag = 2**31
    batch = SentBatch(draft(b""), [(2**31, b"", b"")]) if make == "sent" else DraftBatch([bad])
    with pytest.raises(BadMessage):
        batch.pack(0, 0, 0)
