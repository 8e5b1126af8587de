"""Decoding in columns equals decoding one by one, whatever records are mixed in a buffer."""

from collections.abc import Sequence
from struct import Struct

import numpy as np
import pytest
from hypothesis import given, strategies as st

from roquet.protocol.compression import Compression, compress
from roquet.protocol.errors import BadMessage, ProtocolError
from roquet.protocol.messages.batch import BatchItem
from roquet.protocol.messages.batch_writing import encode_batch
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from roquet.protocol.record_columns import COLUMN_NAMES, PropertiesForm, decode_records
from tests.support.message_rows import only, rows_in, rows_of

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
# With room for the messages of an inner batch behind it.
QUEUE_OFFSETS = st.integers(-(2**63), 2**63 - 1000)

# Names with a meaning, names that begin like them, names too long to be told apart at a glance.
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
ODD_TOPICS = st.binary(max_size=127)
BODIES = st.binary(max_size=60) | st.just(MAGIC_V1.to_bytes(4, signed=True) * 3)

PREFIX = Struct(">ii")


@st.composite
def drafts(draw: st.DrawFn, *, is_regular: bool) -> RecordDraft:
    """A draft of the common kind, or one that may be strange in every way at once."""
    sys_flag = 0
    topic = draw(HONEST_TOPICS).encode()
    magic = MAGIC_V1
    body = draw(BODIES)
    properties = draw(HONEST_PROPERTIES)
    if not is_regular:
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


REGULAR = records(drafts(is_regular=True))
ANY = REGULAR | records(drafts(is_regular=False)) | blanks()
FORMS = st.sampled_from(PropertiesForm)


@given(pieces=st.lists(REGULAR, max_size=12), form=FORMS)
def test_regular_records_decode_as_one_by_one(pieces: list[bytes], form: PropertiesForm) -> None:
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


@given(pieces=st.lists(REGULAR | records(drafts(is_regular=False)), max_size=8), data=st.data())
def test_starts_choose_records(pieces: list[bytes], data: st.DataObject) -> None:
    is_chosen = data.draw(st.lists(st.booleans(), min_size=len(pieces), max_size=len(pieces)))
    starts = np.cumsum([0, *map(len, pieces)])[:-1]
    batch = decode_records(b"".join(pieces), starts=starts[np.array(is_chosen, np.bool_)])
    chosen = b"".join(piece for piece, chosen in zip(pieces, is_chosen, strict=True) if chosen)
    assert rows_in(batch) == rows_of(chosen, PropertiesForm.STRING)


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
