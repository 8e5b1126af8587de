"""Decoding in columns equals decoding one by one, whatever records are mixed in a buffer.

So does encoding, and slices of a log hold each of its records once.
"""

from collections.abc import Sequence
from itertools import pairwise
from struct import Struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from roquet.protocol.compression import Compression, compress
from roquet.protocol.errors import BadMessage, ProtocolError
from roquet.protocol.messages.batch import BatchItem, decode_batch
from roquet.protocol.messages.batch_writing import encode_batch
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.properties import properties_text
from roquet.protocol.messages.record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, peek_record
from roquet.protocol.record_columns import (
    COLUMN_NAMES,
    PropertiesForm,
    RowTooLarge,
    decode_records,
    encode_batches,
    find_records,
)
from tests.support.message_rows import only, rows_in, rows_of

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
# With room for the messages of an inner batch behind it.
QUEUE_OFFSETS = st.integers(-(2**63), 2**63 - 1000)

# Names with a meaning, names that begin like them, names too long to be distinguished at a glance.
NAMES = st.sampled_from(
    [
        *("TAGS", "KEYS", "UNIQ_KEY", "WAIT", "CLUSTER"),
        *("TAG", "TAGSX", "UNIQ_KEYS", "ключ", "имя свойства"),
        *("sixteen-byte-key", "sixteen+byte+key"),
        *("AAAAAAAA1BBBBBBBB", "AAAAAAAA2BBBBBBBB"),
    ]
)
VALUES = st.text(
    st.characters(exclude_characters="\x01\x02", codec="utf-8"), min_size=1, max_size=40
)
HONEST_PROPERTIES = st.tuples(
    st.lists(st.tuples(NAMES, VALUES), max_size=8), st.sampled_from(["", "\x02"])
).map(lambda drawn: ("\x02".join("\x01".join(pair) for pair in drawn[0]) + drawn[1]).encode())
# Built from pieces that make every kind of mistake: empty parts, lost separators, broken UTF-8.
ODD_PROPERTIES = st.lists(
    st.sampled_from(
        [b"\x01", b"\x02", b"\x00", b"TAGS", b"KEYS", b"UNIQ_KEY", b"a", b"\xff", b"\xc3", b"\xa9"]
    ),
    max_size=20,
).map(b"".join)

HONEST_TOPICS = st.text(st.characters(codec="ascii", categories=["L"]), max_size=127)
TOPICS_OF_FEW = st.sampled_from(["", "a", "b", "orders"])
ODD_TOPICS = st.binary(max_size=127)
BODIES = st.binary(max_size=60) | st.just(MAGIC_V1.to_bytes(4, signed=True) * 3)

PREFIX = Struct(">ii")


@st.composite
def drafts(draw: st.DrawFn, *, is_common: bool) -> RecordDraft:
    """A draft of the common kind, or one that may be strange in every way at once."""
    sys_flag = 0
    topic = draw(TOPICS_OF_FEW | HONEST_TOPICS).encode()
    magic = MAGIC_V1
    body = draw(BODIES)
    properties = draw(HONEST_PROPERTIES)
    if not is_common:
        sys_flag = draw(st.sampled_from([0, 0x10, 0x20, 0x30])) | draw(
            st.sampled_from([0, 0x2, 0x4, 0x8, 0x40, 0x80])
        )
        topic = draw(st.just(topic) | ODD_TOPICS)
        magic = draw(st.sampled_from([MAGIC_V1, MAGIC_V2]))
        properties = draw(st.just(properties) | ODD_PROPERTIES)
        if draw(st.booleans()):
            sys_flag |= 0xC0
            body = encode_batch(draw(st.lists(batch_items(), max_size=4)))
        if draw(st.booleans()):
            compression = draw(st.sampled_from(Compression))
            sys_flag |= compression.sys_flag
            body = compress(body, compression)
    return RecordDraft(
        queue_id=draw(INT32),
        flag=draw(INT32),
        sys_flag=sys_flag,
        born_timestamp=draw(INT64),
        born_host=draw(hosts(is_v6=bool(sys_flag & 0x10))),
        store_host=draw(hosts(is_v6=bool(sys_flag & 0x20))),
        body=body,
        topic=topic,
        properties=properties,
        reconsume_times=draw(INT32),
        magic=magic,
        has_checksum=draw(st.booleans()),
    )


def batch_items() -> st.SearchStrategy[BatchItem]:
    return st.builds(BatchItem, INT32, BODIES, HONEST_PROPERTIES | ODD_PROPERTIES)


def hosts(*, is_v6: bool) -> st.SearchStrategy[bytes]:
    size = 20 if is_v6 else 8
    return st.binary(min_size=size, max_size=size)


@st.composite
def records(draw: st.DrawFn, draft: st.SearchStrategy[RecordDraft]) -> bytes:
    drawn = draw(draft)
    data = bytearray(drawn.size)
    drawn.write(data, 0, draw(QUEUE_OFFSETS), draw(INT64), draw(INT64))
    return bytes(data)


def blanks() -> st.SearchStrategy[bytes]:
    return st.binary(max_size=100).map(
        lambda rest: PREFIX.pack(PREFIX.size + len(rest), MAGIC_BLANK) + rest
    )


COMMON = records(drafts(is_common=True))
ANY = COMMON | records(drafts(is_common=False)) | blanks()
FORMS = st.sampled_from(PropertiesForm)


@given(pieces=st.lists(COMMON, max_size=12), form=FORMS)
def test_common_records_decode_as_one_by_one(pieces: list[bytes], form: PropertiesForm) -> None:
    data = b"".join(pieces)
    assert rows_in(decode_records(data, properties=form)) == rows_of(data, form)


# Texts of a few parts: most have the names of the one before, or nearly.
NAME_PARTS = st.sampled_from(
    ["a", "ab", "TAGS", "TAGSX", "UNIQ_KEY", "UNIQ_KEYS", "a long name 1", "a long name 2", ""]
)
VALUE_PARTS = st.sampled_from(["", "v", "7 bytes", "8 bytes.", "more than a word", "one\x01two"])
ALIKE_PAIRS = st.builds(
    "{}{}{}".format, NAME_PARTS, st.sampled_from(["\x01"] * 7 + [""]), VALUE_PARTS
)
ALIKE_TEXTS = st.builds(
    lambda pairs, end: ("\x02".join(pairs) + end).encode(),
    st.lists(ALIKE_PAIRS, min_size=1, max_size=4),
    st.sampled_from(["", "\x02"]),
)


@st.composite
def alike_texts(draw: st.DrawFn) -> list[bytes]:
    """A text again and again, with one or another value changed, and others between them."""
    names = draw(st.lists(NAME_PARTS.filter(bool), min_size=1, max_size=70))
    values = st.lists(VALUE_PARTS, min_size=len(names), max_size=len(names))
    ends = st.sampled_from(["", "\x02", "\x02x", "\x02\x02"])
    alike = st.builds(
        lambda given, end: ("\x02".join(map("{}\x01{}".format, names, given)) + end).encode(),
        values,
        ends,
    )
    return draw(st.lists(alike | ALIKE_TEXTS, max_size=8))


@given(texts=alike_texts(), form=FORMS)
def test_texts_that_are_nearly_alike_decode_as_one_by_one(
    texts: list[bytes], form: PropertiesForm
) -> None:
    pieces: list[bytes] = []
    for text in texts:
        draft = RecordDraft(
            queue_id=0,
            flag=0,
            sys_flag=0,
            born_timestamp=0,
            born_host=bytes(8),
            store_host=bytes(8),
            body=b"",
            topic=b"t",
            properties=text,
        )
        piece = bytearray(draft.size)
        draft.write(piece, 0, 0, 0, 0)
        pieces.append(bytes(piece))
    data = b"".join(pieces)
    assert rows_in(decode_records(data, properties=form)) == rows_of(data, form)


@given(pieces=st.lists(ANY, max_size=12), form=FORMS)
def test_mixed_records_decode_as_one_by_one_and_in_order(
    pieces: list[bytes], form: PropertiesForm
) -> None:
    data = b"".join(pieces)
    batch = decode_records(data, properties=form, broker_name="b")
    assert rows_in(batch) == rows_of(data, form, "b")


@given(pieces=st.lists(ANY, max_size=6), names=st.permutations(COLUMN_NAMES), count=st.integers(1))
def test_a_column_does_not_depend_on_the_others(
    pieces: list[bytes], names: list[str], count: int
) -> None:
    data = b"".join(pieces)
    chosen = names[: count % len(names) + 1]
    batch = decode_records(data, chosen)
    assert batch.schema.names == chosen
    assert rows_in(batch) == only(rows_of(data, PropertiesForm.STRING), chosen)


@given(pieces=st.lists(COMMON | records(drafts(is_common=False)), max_size=8), data=st.data())
def test_starts_choose_records(pieces: list[bytes], data: st.DataObject) -> None:
    is_chosen = data.draw(st.lists(st.booleans(), min_size=len(pieces), max_size=len(pieces)))
    starts = np.cumsum([0, *map(len, pieces)])[:-1]
    batch = decode_records(b"".join(pieces), starts=starts[np.array(is_chosen, np.bool_)])
    chosen = b"".join(piece for piece, chosen in zip(pieces, is_chosen, strict=True) if chosen)
    assert rows_in(batch) == rows_of(chosen, PropertiesForm.STRING)


@given(pieces=st.lists(ANY, max_size=10), topics=st.sets(TOPICS_OF_FEW | HONEST_TOPICS), form=FORMS)
def test_topics_choose_records_before_they_are_decoded(
    pieces: list[bytes], topics: set[str], form: PropertiesForm
) -> None:
    data = b"".join(pieces)
    names = {topic.encode() for topic in topics}
    chosen = [piece for piece in pieces if peek_record(piece).topic in names]
    batch = decode_records(data, topics=topics, properties=form)
    assert rows_in(batch) == rows_of(b"".join(chosen), form)


@st.composite
def logs(
    draw: st.DrawFn, kinds: Sequence[str] = ("plain", "claims", "exit", "any")
) -> tuple[bytes, list[int]]:
    """A log from LOG_BASE on, and the positions of its records.

    Bodies hold records that say of themselves that they lie right there, some of which lead to
    the end of the record around them, as the next one does.
    """
    log = b""
    starts: list[int] = []
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=8)):
        starts.append(len(log))
        body_offset = LOG_BASE + len(log) + 88
        body = draw(st.binary(max_size=30))
        if kind == "claims":
            for _ in range(draw(st.integers(1, 3))):
                body += log_record(body_offset + len(body), b"inner")
        if kind == "exit":
            body += exit_record(body_offset + len(body))
        if kind == "any":
            drawn = draw(drafts(is_common=False))
            data = bytearray(drawn.size)
            drawn.write(data, 0, 0, LOG_BASE + len(log), 0)
            log += bytes(data)
        else:
            log += log_record(LOG_BASE + len(log), body)
    return log, starts


LOG_BASE = 10_000
LOG_PROPERTIES = b"TAGS\x01a"
# What follows a body: the topic and the properties, with their sizes.
LOG_TAIL_SIZE = 1 + len("T") + 2 + len(LOG_PROPERTIES)


def log_record(physical_offset: int, body: bytes) -> bytes:
    draft = RecordDraft(
        queue_id=0,
        flag=0,
        sys_flag=0,
        born_timestamp=0,
        born_host=bytes(8),
        store_host=bytes(8),
        body=body,
        topic=b"T",
        properties=LOG_PROPERTIES,
    )
    data = bytearray(draft.size)
    draft.write(data, 0, 0, physical_offset, 0)
    return bytes(data)


def exit_record(physical_offset: int) -> bytes:
    """At the end of a body it is a record that ends with what follows the body."""
    inner = log_record(physical_offset, b"")
    properties = (len(LOG_PROPERTIES) + LOG_TAIL_SIZE).to_bytes(2) + LOG_PROPERTIES
    return (len(inner) + LOG_TAIL_SIZE).to_bytes(4) + inner[4 : -len(properties)] + properties


@given(log=logs(), cuts=st.lists(st.integers(0, 4000), max_size=6), size_max=st.integers(0, 3000))
def test_slices_of_a_log_hold_every_record_once(
    log: tuple[bytes, list[int]], cuts: list[int], size_max: int
) -> None:
    data, starts = log
    largest = max(np.diff([*starts, len(data)]), default=1)
    bounds = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
    found = [
        find_records(
            data,
            base=LOG_BASE,
            begin=LOG_BASE + begin,
            end=LOG_BASE + end,
            anchor=LOG_BASE,
            record_size_max=int(max(size_max, largest)),
        )
        for begin, end in pairwise(bounds)
    ]
    assert [start for each in found for start in each.starts.tolist()] == starts


@given(log=logs(kinds=("plain", "claims")), cut=st.integers(0, 4000))
def test_a_slice_alone_is_searched_for_the_chain_that_holds(
    log: tuple[bytes, list[int]], cut: int
) -> None:
    data, starts = log
    # Without a record behind it, a body that is cut is all there is to believe.
    last = log_record(LOG_BASE + len(data), b"last")
    cut = min(cut, len(data))
    found = find_records(
        data[cut:] + last,
        base=LOG_BASE + cut,
        begin=LOG_BASE + cut,
        end=LOG_BASE + len(data) + len(last),
    )
    assert [cut + start for start in found.starts] == [
        start for start in [*starts, len(data)] if start >= cut
    ]
    assert found.stop == LOG_BASE + len(data) + len(last)


@given(data=st.binary(max_size=300), begin=st.integers(0, 300), size=st.integers(0, 300))
def test_any_bytes_can_be_searched_for_records(data: bytes, begin: int, size: int) -> None:
    found = find_records(data, base=0, begin=begin, end=begin + size, record_size_max=50)
    assert all(begin <= start < begin + size for start in found.starts)


TEXTS = st.none() | st.text(st.characters(exclude_characters="\x02", codec="utf-8"), max_size=12)
PLAIN_MAPS = st.dictionaries(NAMES | VALUES, VALUES, max_size=4)
MESSAGES = st.tuples(
    st.binary(max_size=30), TEXTS, TEXTS, st.none() | INT32, st.none() | PLAIN_MAPS, TEXTS
)


def scalar_item(
    body: bytes,
    tags: str | None,
    keys: str | None,
    flag: int | None,
    properties: dict[str, str] | None,
    unique_key: str | None,
) -> BatchItem:
    columns = {"TAGS": tags, "KEYS": keys, "UNIQ_KEY": unique_key, "WAIT": "true"}
    named = {name: value for name, value in columns.items() if value}
    kept = {name: value for name, value in (properties or {}).items() if name not in named}
    return BatchItem(flag or 0, body, properties_text({**kept, **named}).encode())


@given(
    messages=st.lists(MESSAGES, min_size=1, max_size=10),
    is_map=st.booleans(),
    size_max=st.integers(1, 400),
    count_max=st.integers(1, 5),
    sliced=st.integers(0, 3),
)
def test_columns_encode_as_one_by_one_and_are_read_back(
    messages: list[tuple[bytes, str, str, int, dict[str, str] | None, str]],
    is_map: bool,
    size_max: int,
    count_max: int,
    sliced: int,
) -> None:
    bodies, tags, keys, flags, properties, unique_keys = zip(*messages, strict=True)
    if is_map:
        given_properties = pa.array(
            [None if each is None else list(each.items()) for each in properties],
            pa.map_(pa.string(), pa.string()),
        )
    else:
        given_properties = pa.array(
            [None if each is None else properties_text(each) for each in properties], pa.string()
        )
    rows = pa.RecordBatch.from_pydict(
        {
            "body": pa.array(bodies, pa.binary()),
            "tags": pa.array(tags, pa.string()),
            "keys": pa.array(keys, pa.string()),
            "flag": pa.array(flags, pa.int32()),
            "properties": given_properties,
        }
    ).slice(sliced)
    ids = pa.array(unique_keys, pa.string()).slice(sliced)
    items = [scalar_item(*message) for message in messages[sliced:]]
    extra = {"UNIQ_KEY": ids, "WAIT": "true"}
    too_large = [row for row, item in enumerate(items) if len(encode_batch([item])) > size_max]
    if too_large:
        with pytest.raises(RowTooLarge) as refused:
            encode_batches(rows, size_max=size_max, count_max=count_max, extra=extra)
        assert refused.value.row == too_large[0]
        return
    batches = encode_batches(rows, size_max=size_max, count_max=count_max, extra=extra)
    assert [item for batch in batches for item in decode_batch(batch.body)] == items
    for batch in batches:
        chosen = items[batch.first_row : batch.first_row + batch.row_count]
        assert batch.body == encode_batch(chosen)
        assert len(batch.body) <= size_max
        assert batch.row_count <= count_max


@given(pieces=st.lists(ANY, min_size=1, max_size=4), data=st.data())
def test_damaged_records_are_refused_or_decode_as_one_by_one(
    pieces: list[bytes], data: st.DataObject
) -> None:
    damaged = bytearray(b"".join(pieces))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(damaged[: data.draw(st.just(len(damaged)) | st.integers(0, len(damaged)))])
    try:
        expected = rows_of(cut, PropertiesForm.MAP)
    except ProtocolError:
        with pytest.raises(ProtocolError):
            decode_records(cut, properties=PropertiesForm.MAP)
    else:
        assert rows_in(decode_records(cut, properties=PropertiesForm.MAP)) == expected


@given(data=st.binary(max_size=300), starts=st.lists(st.integers(-400, 400), max_size=5))
def test_starts_that_lead_nowhere_are_refused(data: bytes, starts: Sequence[int]) -> None:
    if starts:
        with pytest.raises(BadMessage):
            decode_records(data, starts=starts)
