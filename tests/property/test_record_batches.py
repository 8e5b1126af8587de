"""The records of a batch are those that its messages would become one by one."""

from hypothesis import given, strategies as st

from roquet.protocol.host import pack_host
from roquet.protocol.messages.batch_writing import encode_batch
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.properties import parse_properties
from roquet.protocol.messages.record import split_records
from roquet.protocol.messages.record_batches import DraftBatch, SentBatch
from tests.support.records import batch_records

INT32 = st.integers(-(2**31), 2**31 - 1)
HOSTS = st.sampled_from((pack_host("10.0.0.1", 1), pack_host("::1", 1)))
PROPERTIES = st.lists(
    st.sampled_from(
        (
            b"A\x01b",
            b"TAGS\x01t",
            b"\x02",
            b"__CRC32#\x01",
            b"__CRC32#\x010123456789\x02",
            b"\x01",
            b"\xff",
        )
    ),
    max_size=5,
).map(b"".join)


@given(
    items=st.lists(st.tuples(INT32, st.binary(max_size=9), PROPERTIES), min_size=1, max_size=4),
    properties=PROPERTIES,
    hosts=st.tuples(HOSTS, HOSTS),
    has_checksum=st.booleans(),
    sys_flag=INT32,
)
def test_a_batch_is_packed_as_its_messages_would_be(
    items: list[tuple[int, bytes, bytes]],
    properties: bytes,
    hosts: tuple[bytes, bytes],
    has_checksum: bool,
    sys_flag: int,
) -> None:
    def draft(flag: int, body: bytes, properties: bytes) -> RecordDraft:
        return RecordDraft(
            queue_id=3,
            flag=flag,
            sys_flag=sys_flag,
            born_timestamp=11,
            born_host=hosts[0],
            store_host=hosts[1],
            body=body,
            topic=b"TopicA",
            properties=properties,
            reconsume_times=5,
            has_checksum=has_checksum,
        )

    sent = SentBatch(draft(0, b"", properties), encode_batch(items))
    packed = batch_records(sent, 7, 1000)
    messages = split_records(packed)
    one_by_one = DraftBatch(
        [
            draft(flag, body, message.raw_properties)
            for (flag, body, _), message in zip(items, messages, strict=True)
        ]
    )
    assert (sent.sizes, sent.body_size) == (one_by_one.sizes, one_by_one.body_size)
    assert packed == batch_records(one_by_one, 7, 1000)
    assert sent.tags_codes == one_by_one.tags_codes
    for (_, _, own), message in zip(items, messages, strict=True):
        expected = parse_properties(str(own + b"\x02" + properties, "latin-1"))
        expected.pop("__CRC32#", None)
        found = parse_properties(str(message.raw_properties, "latin-1"))
        assert bool(found.pop("__CRC32#", None)) == has_checksum
        assert found == expected
