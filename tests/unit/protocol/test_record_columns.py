"""Columns of records: the table, each kind of record, damage, limits, golden data.

That the columns equal a reading one by one is proved in tests/property/test_record_columns.py.
"""

import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from struct import Struct

import numpy as np
import pyarrow as pa
import pytest

from roquet.errors import RoquetError
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.compression import Compression, compress
from roquet.protocol.errors import BadMessage, TooLarge
from roquet.protocol.host import pack_host
from roquet.protocol.messages.batch import BatchItem
from roquet.protocol.messages.batch_writing import encode_batch
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.message import SysFlag
from roquet.protocol.messages.record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from roquet.protocol.record_columns import (
    COLUMN_NAMES,
    PropertiesForm,
    UnknownColumn,
    decode_records,
    decoder,
    record_schema,
)
from roquet.protocol.record_columns.columns import record_columns
from roquet.protocol.record_columns.common_records import sort_records
from roquet.protocol.record_columns.record_starts import find_record_starts
from tests.support.golden_frames import golden_frames
from tests.support.golden_records import RECORD_COUNT, golden_records
from tests.support.message_rows import rows_in, rows_of
from tests.support.raising import raises

INNER_BATCH = (SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP).value
PREFIX = Struct(">ii")


def record(
    properties: bytes = b"TAGS\x01a\x02KEYS\x01k1 k2\x02UNIQ_KEY\x01ID1",
    *,
    body: bytes = b"hello",
    topic: bytes = b"TopicA",
    sys_flag: int = 0,
    queue_offset: int = 7,
    born_timestamp: int = 1_700_000_000_001,
    magic: int = MAGIC_V1,
) -> bytes:
    draft = RecordDraft(
        queue_id=2,
        flag=3,
        sys_flag=sys_flag,
        born_timestamp=born_timestamp,
        born_host=pack_host("::1" if sys_flag & 0x10 else "10.0.0.1", 50000),
        store_host=pack_host("::2" if sys_flag & 0x20 else "127.0.0.1", 10911),
        body=body,
        topic=topic,
        properties=properties,
        reconsume_times=4,
        magic=magic,
    )
    data = bytearray(draft.size)
    draft.write(data, 0, queue_offset, 4096, 1_700_000_000_002)
    return bytes(data)


def column(data: bytes, name: str, form: PropertiesForm = PropertiesForm.STRING) -> list[object]:
    return [row[name] for row in rows_in(decode_records(data, [name], properties=form))]


def maps(*properties: bytes) -> list[object]:
    return column(b"".join(map(record, properties)), "properties", PropertiesForm.MAP)


def test_the_schema_is_that_of_the_spark_source() -> None:
    assert str(record_schema()).splitlines() == [
        "topic: string",
        "brokerName: string",
        "queueId: int32",
        "queueOffset: int64",
        "tags: string",
        "keys: string",
        "body: binary",
        "bornTimestamp: timestamp[us, tz=UTC]",
        "storeTimestamp: timestamp[us, tz=UTC]",
        "msgId: string",
        "offsetMsgId: string",
        "reconsumeTimes: int32",
        "flag: int32",
        "sysFlag: int32",
        "bornHost: string",
        "storeHost: string",
        "physicalOffset: int64",
        "properties: string",
    ]


@pytest.mark.parametrize("form", PropertiesForm)
@pytest.mark.parametrize(
    "data", [b"", record(), record(sys_flag=0x10), record() + record(sys_flag=0x10)]
)
def test_a_batch_has_exactly_the_promised_schema(data: bytes, form: PropertiesForm) -> None:
    # Spark compares names, types and nullability of every batch, and says little when they differ.
    assert decode_records(data, properties=form).schema == record_schema(None, form)


def test_every_column_of_a_record() -> None:
    assert rows_in(decode_records(record(), broker_name="broker-a")) == [
        {
            "topic": "TopicA",
            "brokerName": "broker-a",
            "queueId": 2,
            "queueOffset": 7,
            "tags": "a",
            "keys": "k1 k2",
            "body": b"hello",
            "bornTimestamp": 1_700_000_000_001_000,
            "storeTimestamp": 1_700_000_000_002_000,
            "msgId": "ID1",
            "offsetMsgId": "7F00000100002A9F0000000000001000",
            "reconsumeTimes": 4,
            "flag": 3,
            "sysFlag": 0,
            "bornHost": "10.0.0.1:50000",
            "storeHost": "127.0.0.1:10911",
            "physicalOffset": 4096,
            "properties": "TAGS\x01a\x02KEYS\x01k1 k2\x02UNIQ_KEY\x01ID1",
        }
    ]


def test_properties_can_be_left_out() -> None:
    batch = decode_records(record(), properties=PropertiesForm.NONE)
    assert batch.schema.names == list(COLUMN_NAMES[:-1])


def test_columns_come_in_the_order_they_are_asked_for() -> None:
    assert decode_records(record(), ["flag", "body", "topic"]).schema.names == [
        "flag",
        "body",
        "topic",
    ]


@pytest.mark.parametrize(
    ("name", "form"),
    [("Topic", PropertiesForm.STRING), ("properties", PropertiesForm.NONE)],
)
def test_a_column_that_does_not_exist_is_refused_by_name(name: str, form: PropertiesForm) -> None:
    with raises(UnknownColumn, name=name) as refused:
        decode_records(record(), ["topic", name], properties=form)
    assert refused.value.name == name
    assert isinstance(refused.value, RoquetError)


def test_a_message_without_an_id_of_its_own_is_known_by_its_place() -> None:
    data = record(b"UNIQ_KEY\x01ID1") + record(b"WAIT\x01true") + record(b"")
    place = "7F00000100002A9F0000000000001000"
    assert column(data, "msgId") == ["ID1", place, place]


def test_absent_tags_and_keys_are_null() -> None:
    data = record(b"KEYS\x01k") + record(b"TAGS\x01t") + record(b"")
    assert column(data, "tags") == [None, "t", None]
    assert column(data, "keys") == ["k", None, None]


def test_names_that_only_start_alike_are_not_taken_for_each_other() -> None:
    data = record(b"TAGSX\x01no\x02TAG\x01no\x02UNIQ_KEY2\x01no")
    assert column(data, "tags") == [None]
    assert column(data, "msgId") == ["7F00000100002A9F0000000000001000"]


@pytest.mark.parametrize("end", [b"", b"\x02"], ids=["as 4.9 writes", "as 5.x writes"])
def test_both_ends_of_a_property_text_are_read_as_a_map(end: bytes) -> None:
    assert maps(b"a\x011\x02b\x012" + end, b"", b"c\x013" + end) == [
        {"a": "1", "b": "2"},
        {},
        {"c": "3"},
    ]


def test_the_last_of_repeated_properties_counts() -> None:
    # A 4.9 broker appends WAIT to each message of a batch, which has one already.
    repeated = b"WAIT\x01true\x02a\x011\x02WAIT\x01false\x02TAGS\x01t\x02a\x012\x02a\x013"
    assert maps(b"a\x010", repeated) == [{"a": "0"}, {"WAIT": "false", "a": "3", "TAGS": "t"}]
    assert column(record(b"TAGS\x01x\x02TAGS\x01y"), "tags") == ["y"]


def test_long_names_that_differ_only_in_the_middle_are_kept_apart() -> None:
    properties = b"AAAAAAAA1BBBBBBBB\x01one\x02AAAAAAAA2BBBBBBBB\x01two\x02AAAAAAAA1BBBBBBBB\x01x"
    assert maps(properties) == [{"AAAAAAAA1BBBBBBBB": "x", "AAAAAAAA2BBBBBBBB": "two"}]


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        (b"\x02", {}),
        (b"\x01", {}),
        (b"no separator", {}),
        (b"not\x00one", {}),
        (b"\x01no name\x02a\x011", {"a": "1"}),
        (b"no value\x01\x02a\x011", {"a": "1"}),
        (b"a\x011\x02\x02b\x012", {"a": "1", "b": "2"}),
        (b"a\x011\x02\x02", {"a": "1"}),
        (b"\x02a\x011", {"a": "1"}),
        (b"a\x01one\x01more", {"a": "one\x01more"}),
        (b"a\x011\x01\x01\x02b\x012", {"a": "1\x01\x01", "b": "2"}),
        (b"a\x01b\x01c\x01d", {"a": "b\x01c\x01d"}),
        (b"lone\x02b\x012\x01", {"b": "2\x01"}),
        (b"a\x01\x00\x02b\x00\x012", {"a": "\x00", "b\x00": "2"}),
        (b"a\x01\xff\x02\xc3\x012", {"a": "\ufffd", "\ufffd": "2"}),
    ],
)
def test_odd_property_texts_keep_what_is_a_property(
    properties: bytes, expected: dict[str, str]
) -> None:
    neighbour = b"x\x01y"
    assert maps(neighbour, properties, neighbour) == [{"x": "y"}, expected, {"x": "y"}]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("topic", "\ufffdopic"),
        ("tags", "\ufffdt\ufffd"),
        ("keys", "\ufffd\ufffd\ufffd"),
        ("properties", "TAGS\x01\ufffdt\ufffd\x02KEYS\x01\ufffd\ufffd\ufffd"),
    ],
)
def test_text_that_is_no_utf8_shows_replacement_characters(name: str, expected: str) -> None:
    # The keys are half of a surrogate pair, which UTF-8 has no place for.
    properties = b"TAGS\x01\xe9t\xe9\x02KEYS\x01\xed\xa0\x80"
    data = record() + record(properties, topic=b"\xffopic") + record()
    assert column(data, name)[1] == expected


@pytest.mark.parametrize("compression", Compression)
def test_bodies_are_decompressed(compression: Compression) -> None:
    packed = record(body=compress(b"x" * 5000, compression), sys_flag=compression.sys_flag)
    assert column(packed + record(), "body") == [b"x" * 5000, b"hello"]
    assert column(packed, "sysFlag") == [compression.sys_flag]


def test_hosts_of_both_address_families() -> None:
    data = record(sys_flag=0x10) + record(sys_flag=0x20) + record()
    assert column(data, "bornHost") == ["[::1]:50000", "10.0.0.1:50000", "10.0.0.1:50000"]
    assert column(data, "storeHost") == ["127.0.0.1:10911", "[::2]:10911", "127.0.0.1:10911"]


def test_long_topics_of_magic_v2() -> None:
    data = record() + record(topic=b"t" * 300, magic=MAGIC_V2)
    assert column(data, "topic") == ["TopicA", "t" * 300]


def test_an_inner_batch_becomes_its_messages() -> None:
    items = [BatchItem(1, b"one", b"TAGS\x01a"), BatchItem(2, b"two", b"TAGS\x01b")]
    wrapped = record(b"INNER_NUM\x012", body=encode_batch(items), sys_flag=INNER_BATCH)
    data = record(queue_offset=6) + wrapped + record(queue_offset=9)
    names = ["queueOffset", "flag", "body", "tags"]
    assert [tuple(row.values()) for row in rows_in(decode_records(data, names))] == [
        (6, 3, b"hello", "a"),
        (7, 1, b"one", "a"),
        (8, 2, b"two", "b"),
        (9, 3, b"hello", "a"),
    ]


def test_an_inner_batch_that_need_not_be_unwrapped_stays_a_message() -> None:
    body = encode_batch([BatchItem(1, b"one", b"")])
    assert column(record(body=body, sys_flag=SysFlag.INNER_BATCH.value), "body") == [body]


def test_times_that_microseconds_cannot_count_are_null() -> None:
    limit = (2**63 - 1) // 1000
    times = [limit, limit + 1, -limit, -limit - 1, 2**63 - 1]
    expected = [limit * 1000, None, -limit * 1000, None, None]
    for sys_flag in (0, 0x10):
        data = b"".join(record(born_timestamp=time, sys_flag=sys_flag) for time in times)
        assert column(data, "bornTimestamp") == expected


def test_blank_filler_makes_no_row() -> None:
    blank = PREFIX.pack(30, MAGIC_BLANK) + bytes(22)
    assert column(record() + blank + record() + blank, "queueId") == [2, 2]
    assert decode_records(blank).num_rows == 0


def test_a_body_that_looks_like_records_is_still_a_body() -> None:
    inner = record() + record()
    assert column(record(body=inner) + record(body=b"x" + inner), "body") == [inner, b"x" + inner]


def test_very_many_properties() -> None:
    properties = b"\x02".join(b"name%d\x01%d" % (number, number) for number in range(2000))
    expected = {f"name{number}": str(number) for number in range(2000)}
    assert maps(*[properties] * 20) == [expected] * 20


@pytest.mark.parametrize(
    "data",
    [
        record(),
        record(b""),
        record(b"TAGS\x01t\x02"),
        record(b"WAIT\x01true\x02a\x01\xc3\xa9\x02WAIT\x01true"),
        record(body=b""),
        record(body=b"\x00"),  # its CRC has the bit that records leave out
        record(sys_flag=SysFlag.TRANSACTION_COMMIT.value),
    ],
)
def test_records_of_the_common_kind_need_no_scalar_reader(data: bytes) -> None:
    buffer = np.frombuffer(data * 3, np.uint8)
    for form in PropertiesForm:
        columns = record_columns(form).values()
        needs = {need for column in columns for need in column.needs}
        starts = find_record_starts(buffer)
        found = sort_records(buffer, starts, needs, topics=None, check_bodies=True)
        assert found.common.numbers.tolist() == [0, 1, 2]
        assert [len(column.of_records(found.common)) for column in columns] == [3] * len(columns)


class TestDamage:
    good = record()

    @pytest.mark.parametrize("size", [-1, 0, 7, 8, 90, len(record()) - 1, len(record()) + 1])
    def test_a_size_that_cannot_be(self, size: int) -> None:
        with pytest.raises(BadMessage):
            decode_records(self.good + size.to_bytes(4, signed=True) + self.good[4:])

    @pytest.mark.parametrize("magic", [MAGIC_V1, MAGIC_V2])
    @pytest.mark.parametrize("size", [8, 50, 90])
    def test_a_record_smaller_than_any(self, size: int, magic: int) -> None:
        with pytest.raises(BadMessage):
            decode_records(self.good + PREFIX.pack(size, magic) + bytes(size - PREFIX.size))

    def test_a_body_that_ends_elsewhere_with_a_negative_size_that_leads_back(self) -> None:
        # All parts together make exactly the 100 bytes that the first record claims.
        liar = PREFIX.pack(100, MAGIC_V1) + bytes(76) + (32_777).to_bytes(4) + bytes(12)
        victim = record(body=bytes(32_677) + b"\x00\x80\x00" + bytes(100))
        assert (liar + victim)[88 + 32_777 :].startswith(b"\x00\x80\x00")
        with pytest.raises(BadMessage):
            decode_records(liar + victim, check_bodies=False)

    @pytest.mark.parametrize("size", [-(2**31), -1, 4, 6, 1000, 2**31 - 1])
    def test_a_body_size_that_cannot_be(self, size: int) -> None:
        bad = self.good[:84] + size.to_bytes(4, signed=True) + self.good[88:]
        with pytest.raises(BadMessage):
            decode_records(bad + self.good)
        with pytest.raises(BadMessage):
            decode_records(self.good + bad)

    def test_a_negative_body_size_with_which_the_parts_add_up(self) -> None:
        # It leads back into the transaction offset, which here looks like an empty topic and the
        # size of properties that end where the record does.
        properties_size = len(self.good) - 79
        transaction_offset = b"\x00" + properties_size.to_bytes(2) + bytes(5)
        bad = self.good[:76] + transaction_offset + (-12).to_bytes(4, signed=True) + self.good[88:]
        with pytest.raises(BadMessage):
            decode_records(bad, ["queueId"], check_bodies=False)

    def test_a_topic_larger_than_its_magic_allows(self) -> None:
        long = record(topic=b"t" * 127)
        size = (len(long) + 73).to_bytes(4)
        bad = size + long[4:93] + bytes([200]) + b"t" * 73 + long[94:]
        with pytest.raises(BadMessage):
            decode_records(bad)

    @pytest.mark.parametrize("bit", [0x10, 0x20])
    def test_addresses_of_the_other_family(self, bit: int) -> None:
        with pytest.raises(BadMessage):
            decode_records(self.good[:36] + bit.to_bytes(4) + self.good[40:])

    @pytest.mark.parametrize("size", [0, 5, 7, 127, 128, 255])
    def test_a_topic_size_that_cannot_be(self, size: int) -> None:
        with pytest.raises(BadMessage):
            decode_records(self.good[:93] + bytes([size]) + self.good[94:])

    @pytest.mark.parametrize("size", [0, 1, 100, 32767, 32768, 65535])
    def test_a_size_of_properties_that_cannot_be(self, size: int) -> None:
        with pytest.raises(BadMessage):
            decode_records(self.good[:100] + size.to_bytes(2) + self.good[102:])

    def test_a_buffer_cut_inside_a_record(self) -> None:
        for size in range(1, len(self.good)):
            with pytest.raises(BadMessage):
                decode_records(self.good + self.good[:size])

    def test_a_blank_that_does_not_fit(self) -> None:
        for size in (0, 7, 9):
            with pytest.raises(BadMessage):
                decode_records(PREFIX.pack(size, MAGIC_BLANK))

    def test_an_unknown_magic(self) -> None:
        with pytest.raises(BadMessage):
            decode_records(self.good[:4] + bytes(4) + self.good[8:])

    def test_a_body_that_breaks_its_crc(self) -> None:
        bad = self.good.replace(b"hello", b"jello")
        with pytest.raises(BadMessage, match="CRC"):
            decode_records(self.good + bad)

    def test_a_body_that_breaks_its_crc_passes_when_the_caller_waives_the_check(self) -> None:
        bad = self.good.replace(b"hello", b"jello")
        batch = decode_records(self.good + bad, ["body"], check_bodies=False)
        assert batch.column(0).to_pylist() == [b"hello", b"jello"]

    def test_a_compressed_body_that_is_garbage(self) -> None:
        with pytest.raises(BadMessage):
            decode_records(record(body=b"garbage", sys_flag=Compression.ZSTD.sys_flag))

    def test_an_inner_batch_whose_last_offset_is_no_int64(self) -> None:
        body = encode_batch([BatchItem(0, b"", b"")] * 2)
        with pytest.raises(BadMessage):
            decode_records(record(body=body, sys_flag=INNER_BATCH, queue_offset=2**63 - 1))


class TestStarts:
    data = record(queue_offset=0) + record(queue_offset=1) + record(queue_offset=2)
    size = len(record())

    def test_only_these_records_are_read(self) -> None:
        batch = decode_records(self.data, ["queueOffset"], starts=[0, 2 * self.size])
        assert batch.column(0).to_pylist() == [0, 2]

    def test_nothing_else_is_looked_at(self) -> None:
        data = b"\xff" * 33 + self.data + b"\xff" * 33
        batch = decode_records(data, ["queueOffset"], starts=np.array([33 + self.size]))
        assert batch.column(0).to_pylist() == [1]

    def test_none_of_them_make_an_empty_batch(self) -> None:
        assert decode_records(self.data, starts=[]).num_rows == 0

    @pytest.mark.parametrize(
        "starts",
        [[-1], [1], [3 * size], [3 * size - 1], [2**40], [size, 0], [0, 0], [0, 1], [0, size - 1]],
    )
    def test_starts_must_be_whole_records_one_behind_the_other(self, starts: list[int]) -> None:
        with pytest.raises(BadMessage):
            decode_records(self.data, starts=starts)

    def test_blank_filler_is_no_record(self) -> None:
        # As long as an empty record, and its zeros would do for one.
        blank = PREFIX.pack(91, MAGIC_BLANK) + bytes(83)
        with pytest.raises(BadMessage):
            decode_records(blank, starts=[0])


class TestLimits:
    def test_data_larger_than_a_log_file(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(decoder, "DATA_SIZE_MAX", len(record()))
        assert decode_records(record()).num_rows == 1
        with pytest.raises(TooLarge):
            decode_records(record() * 2)

    def test_many_bodies_that_grow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        packed = record(
            body=compress(bytes(50_000), Compression.ZLIB), sys_flag=Compression.ZLIB.sys_flag
        )
        monkeypatch.setattr(decoder, "UNCOMMON_SIZE_MAX", 120_000)
        assert decode_records(packed * 2).num_rows == 2
        with pytest.raises(TooLarge):
            decode_records(packed * 3)

    def test_an_inner_batch_that_repeats_a_long_topic(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        body = encode_batch([BatchItem(0, b"", b"")] * 1000)
        data = record(body=body, sys_flag=INNER_BATCH, topic=b"t" * 30_000, magic=MAGIC_V2)
        monkeypatch.setattr(decoder, "UNCOMMON_SIZE_MAX", 1_000_000)
        with pytest.raises(TooLarge):
            decode_records(data)

    @pytest.mark.parametrize("form", PropertiesForm)
    def test_few_records_of_a_large_buffer_take_little_memory(self, form: PropertiesForm) -> None:
        data = record() + bytes(30_000_000) + record()
        starts = [0, len(data) - len(record())]
        with arrow_memory() as pool, python_memory() as peak:
            decode_records(data, starts=starts, properties=form)
            assert pool.max_memory() + peak() < 300_000


@contextmanager
def arrow_memory() -> Iterator[pa.MemoryPool]:
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(pool)
    try:
        yield pool
    finally:
        pa.set_memory_pool(usual)


@contextmanager
def python_memory() -> Iterator[Callable[[], int]]:
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


class TestTopics:
    data = record(topic=b"A", queue_offset=0) + record(topic=b"B", queue_offset=1)
    data += record(topic=b"AB", queue_offset=2) + record(topic=b"A", queue_offset=3)

    @pytest.mark.parametrize(
        ("topics", "expected"),
        [
            (["A"], [0, 3]),
            ({"B", "AB"}, [1, 2]),
            (("C",), []),
            ([], []),
            (["A", "B", "AB"], [0, 1, 2, 3]),
        ],
    )
    def test_only_records_of_these_topics_become_rows(
        self, topics: Collection[str], expected: list[int]
    ) -> None:
        batch = decode_records(self.data, ["queueOffset"], topics=topics)
        assert batch.column(0).to_pylist() == expected

    def test_they_choose_among_the_records_that_starts_name(self) -> None:
        size = len(record(topic=b"A"))
        batch = decode_records(
            self.data, ["queueOffset"], starts=[size, 3 * size + 1], topics=["A"]
        )
        assert batch.column(0).to_pylist() == [3]

    @pytest.mark.parametrize(
        "other",
        [
            record(topic=b"B").replace(b"hello", b"jello"),
            record(topic=b"B", body=b"garbage", sys_flag=Compression.ZSTD.sys_flag),
            record(topic=b"B", body=b"no batch", sys_flag=INNER_BATCH | 0x30, magic=MAGIC_V2),
        ],
    )
    def test_bodies_of_other_topics_are_not_looked_at(self, other: bytes) -> None:
        with pytest.raises(BadMessage):
            decode_records(other)
        assert decode_records(other + record(topic=b"A"), topics=["A"]).num_rows == 1

    @pytest.mark.parametrize(("sys_flag", "magic"), [(0x30, MAGIC_V1), (0x10, MAGIC_V2)])
    def test_the_topic_is_found_in_every_kind_of_record(self, sys_flag: int, magic: int) -> None:
        odd = record(topic=b"A", sys_flag=sys_flag, magic=magic)
        assert decode_records(odd, topics=["A"]).num_rows == 1
        assert decode_records(odd, topics=["B"]).num_rows == 0

    def test_a_record_whose_sizes_lie_is_of_no_other_topic(self) -> None:
        bad = record(topic=b"B")
        with pytest.raises(BadMessage):
            decode_records(bad[:84] + (1000).to_bytes(4) + bad[88:], topics=["A"])

    def test_a_topic_that_is_no_text_is_not_taken_for_what_shows_like_it(self) -> None:
        data = record(topic=b"\xff")
        assert column(data, "topic") == ["\ufffd"]
        assert decode_records(data, topics=["\ufffd", "\ud800"]).num_rows == 0


def test_the_buffer_may_go_after_decoding() -> None:
    data = bytearray(record() + record(sys_flag=0x10))
    batch = decode_records(data)
    before = batch.to_pylist()
    data[:] = b""  # refused with a BufferError while anything still looks at it
    assert batch.to_pylist() == before


@pytest.mark.parametrize("form", PropertiesForm)
def test_all_records_of_real_logs_decode_as_one_by_one(form: PropertiesForm) -> None:
    data = b"".join(golden.data for golden in golden_records())
    rows = rows_in(decode_records(data, properties=form))
    assert len(rows) == RECORD_COUNT
    assert rows == rows_of(data, form)


def test_real_pull_replies_decode_as_one_by_one() -> None:
    replies = [
        golden.command.body
        for golden in golden_frames()
        if golden.kind == "response"
        and golden.request_code == RequestCode.PULL_MESSAGE
        and golden.command.code == ResponseCode.SUCCESS
    ]
    assert replies
    for body in replies:
        assert rows_in(decode_records(body)) == rows_of(body, PropertiesForm.STRING)


def test_decoding_numbers_and_texts_does_not_load_the_functions_of_arrow() -> None:
    """They take longer to load than a hundred thousand records to decode."""
    script = (
        "import sys\n"
        "from roquet.protocol.record_columns import decode_records\n"
        "columns = ['queueOffset', 'tags', 'body', 'storeTimestamp']\n"
        "print(decode_records(sys.stdin.buffer.read(), columns).num_rows)\n"
        "print('pyarrow.compute' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], input=record(b"1"), capture_output=True, check=True
    )
    assert done.stdout.split() == [b"1", b"False"]


def test_the_rest_of_the_protocol_works_where_pyarrow_is_not_installed() -> None:
    script = (
        "import importlib, pkgutil, sys, roquet.protocol as room\n"
        "sys.modules['pyarrow'] = None\n"
        "for module in pkgutil.walk_packages(room.__path__, room.__name__ + '.'):\n"
        "    if '.record_columns' not in module.name:\n"
        "        importlib.import_module(module.name)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
