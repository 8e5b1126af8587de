"""What is shown of a record in one pass is what `message_form` shows of it, byte for byte.

Records that it leaves are shown there: compressed, damaged, waiting and dead ones.
"""

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from roquet.grpc.calls import with_head
from roquet.grpc.message_form import put_message, resource_of
from roquet.grpc.schema import pb
from roquet.grpc.shown_records import shown_records
from roquet.protocol.errors import BadMessage, TooLarge
from roquet.protocol.host import pack_host
from roquet.protocol.messages.record import read_record
from tests.support.records import PLAIN_DRAFT, changed, record_of

ATTEMPTS_MAX = 5
RECEIPT = "17 1794934487260 60000 0 0 broker-a 3 "
COMMON = (
    b"city\x01Rome\x02UNIQ_KEY\x0101AB\x02PGROUP\x01orders\x02BORN_TIMESTAMP\x01123\x02TAGS\x01new"
    b"\x02KEYS\x01k1 k2\x02__BORNHOST\x01laptop\x02CLUSTER\x01c\x02MSG_REGION\x01r"
    b"\x02TRACE_ON\x01true"
)

names = st.sampled_from(
    [
        *["UNIQ_KEY"] * 4,
        *[
            "TAGS",
            "KEYS",
            "city",
            "land",
            "ünïcode",
            "__BORNHOST",
            "__SHARDINGKEY",
            "TRACE_CONTEXT",
        ],
        *["DELAY", "TIMER_DELIVER_MS", "TRAN_MSG", "DLQ_ORIGIN_TOPIC", "POP_CK", "WAIT", "PGROUP"],
        *["DEAD_LETTER_REASON", "KEY", "TAGSS", "", "x" * 200],
    ]
)
values = st.sampled_from(
    ["a", "k1 k2", " a  b ", "", "true", "12", "地址", "x\x01y", "v" * 300, "\x00"]
)
texts = st.one_of(
    st.just(COMMON),
    st.lists(st.tuples(names, values), max_size=8).map(
        lambda pairs: "\x02".join(f"{name}\x01{value}" for name, value in pairs).encode()
    ),
    st.lists(st.tuples(names, values), max_size=4).map(
        lambda pairs: COMMON + "".join(f"\x02{name}\x01{value}" for name, value in pairs).encode()
    ),
    st.sampled_from(
        [b"UNIQ_KEY\x01a\x02TAGS\x01\xff\xfe", b"UNIQ_KEY", b"\x02\x02UNIQ_KEY\x01a\x02"]
    ),
    st.binary(max_size=60),
)
hosts = st.sampled_from(
    [pack_host("10.0.0.1", 10911), pack_host("255.255.255.255", -1), pack_host("::1", 5)]
)
records = st.builds(
    lambda properties, sys_flag, **members: record_of(
        changed(PLAIN_DRAFT, properties=properties, sys_flag=sys_flag, **members)
    ),
    texts,
    st.sampled_from([0, 0, 0, 0, 2, 1, 4, 8]),
    body=st.binary(max_size=200),
    queue_id=st.sampled_from([0, 1, 300, 2**31 - 1]),
    born_timestamp=st.sampled_from([0, 1, 999, 1_794_934_487_260, 1_794_934_487_000, -1]),
    born_host=hosts,
    store_host=hosts,
    reconsume_times=st.sampled_from([0, 0, 0, 1, 4, 5, -1, 2**31 - 1]),
    has_checksum=st.booleans(),
)


def shown_slowly(record: bytes, times: int, tags: Sequence[str]) -> bytes | None:
    try:
        message = read_record(record)
        message.reconsume_times = max(message.reconsume_times, times)
        if message.reconsume_times >= ATTEMPTS_MAX or (tags and message.tags not in tags):
            return None
        shown = pb.ReceiveMessageResponse()
        put_message(shown.message, message, "ns%orders", f"{RECEIPT}{message.queue_offset}")
    except (BadMessage, TooLarge):
        return None
    return with_head(shown.SerializeToString())


def shown(
    found: Sequence[bytes], times: Sequence[int], tags: Sequence[str]
) -> tuple[list[bytes | None], int]:
    topic = resource_of("ns%orders").SerializeToString()
    wanted = frozenset(tag.encode() for tag in tags) or None
    return shown_records(list(found), times, topic, RECEIPT.encode(), wanted, ATTEMPTS_MAX)


@given(
    st.lists(st.tuples(records, st.sampled_from([0, 0, 1, 4, 9])), max_size=4),
    st.sampled_from([(), (), ("new",), ("a", "地址")]),
)
def test_both_ways_show_the_same(given_records: list[tuple[bytes, int]], tags: list[str]) -> None:
    times = [each for _, each in given_records]
    found, body_size = shown([record for record, _ in given_records], times, tags)
    sizes = 0
    for one, (record, count) in zip(found, given_records, strict=True):
        if one is not None:
            assert one == shown_slowly(record, count, tags)
            sizes += len(read_record(record).body)
    assert body_size == sizes


@given(records, st.integers(0, 400), st.integers(0, 255))
def test_a_record_with_a_wrong_byte_is_left_or_shown_as_it_is(
    record: bytes, at: int, byte: int
) -> None:
    damaged = bytearray(record)
    damaged[at % len(damaged)] = byte
    (one,), _ = shown([bytes(damaged)], (), ())
    if one is not None:
        assert one == shown_slowly(bytes(damaged), 0, ())


@given(records, st.integers(0, 400))
def test_a_record_that_is_cut_is_left(record: bytes, size: int) -> None:
    (one,), body_size = shown([record[: min(size, len(record) - 1)]], (), ())
    assert (one, body_size) == (None, 0)


@pytest.mark.parametrize("tags", [(), ("new",)])
def test_common_records_are_not_left(tags: tuple[str, ...]) -> None:
    record = record_of(changed(PLAIN_DRAFT, properties=COMMON, has_checksum=True))
    assert shown([record], (), tags)[0] == [shown_slowly(record, 0, tags)] != [None]


@pytest.mark.parametrize("count", [1, 62, 63, 64, 65, 200])
def test_both_ways_show_the_same_of_many_properties(count: int) -> None:
    pairs = "\x02".join(f"n{index}\x01v" for index in range(count))
    record = record_of(
        changed(PLAIN_DRAFT, properties=b"UNIQ_KEY\x01a\x02" + pairs.encode(), body=b"")
    )
    (one,), _ = shown([record], (), ())
    assert one == (shown_slowly(record, 0, ()) if count < 64 else None)


@pytest.mark.parametrize("size", [1, 2, 63, 64, 127, 128, 16_383, 16_384, 32_000])
def test_both_ways_show_the_same_of_texts_of_any_size(size: int) -> None:
    """A size takes one byte more from 128 and from 16384 on; keys of a letter take the most."""
    keys = b" ".join([b"k"] * (size // 2 + 1))
    for properties in (b"city\x01" + b"v" * size, b"KEYS\x01" + keys, b"TAGS\x01" + b"t" * size):
        record = record_of(
            changed(PLAIN_DRAFT, properties=b"UNIQ_KEY\x01a\x02" + properties, body=bytes(size))
        )
        assert shown([record], (), ())[0] == [shown_slowly(record, 0, ())] != [None]
