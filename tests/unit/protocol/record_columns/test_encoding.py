"""Columns as batch sends: each column, where batches are cut, what is refused.

That the bytes are those of the scalar writer is proved in tests/property/test_record_columns.py.
"""

from collections.abc import Mapping

import pyarrow as pa
import pytest

from roquet.protocol.errors import BadMessage, TooLarge
from roquet.protocol.messages.batch import BatchItem, decode_batch
from roquet.protocol.record_columns import (
    BadColumn,
    BadProperty,
    RowTooLarge,
    UnfitRow,
    encode_batches,
)

STRING_MAP = pa.map_(pa.string(), pa.string())


def items_of(
    columns: Mapping[str, pa.Array], extra: Mapping[str, pa.Array | str] | None = None
) -> list[BatchItem]:
    rows = pa.RecordBatch.from_pydict(dict(columns))
    (batch,) = encode_batches(rows, size_max=1_000_000, count_max=1000, extra=extra or {})
    assert (batch.first_row, batch.row_count) == (0, rows.num_rows)
    return decode_batch(batch.body)


def properties_of(**columns: pa.Array) -> list[bytes]:
    bodies = pa.array([b""] * len(next(iter(columns.values()))))
    return [item.properties for item in items_of({"body": bodies, **columns})]


def maps(*rows: Mapping[str, str | None] | None) -> pa.Array:
    return pa.array([None if row is None else list(row.items()) for row in rows], STRING_MAP)


def test_every_column_of_a_row() -> None:
    columns = {
        "topic": pa.array(["not in a batch"]),
        "body": pa.array([b"hello"]),
        "tags": pa.array(["a"]),
        "keys": pa.array(["k1 k2"]),
        "flag": pa.array([7]),
        "properties": maps({"x": "1", "y": "2"}),
    }
    extra = {"UNIQ_KEY": pa.array([b"ID1"], pa.binary(3)), "WAIT": "true"}
    text = b"x\x011\x02y\x012\x02TAGS\x01a\x02KEYS\x01k1 k2\x02UNIQ_KEY\x01ID1\x02WAIT\x01true"
    assert items_of(columns, extra) == [BatchItem(7, b"hello", text)]


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.binary(), pa.large_string(), pa.large_binary(), pa.string_view()],
)
def test_bodies_are_texts_or_bytes_of_any_kind(kind: pa.DataType) -> None:
    texts = ["один", "", "three" * 10]
    items = items_of({"body": pa.array(texts, pa.string()).cast(kind)})
    assert [item.body.decode() for item in items] == texts


def test_texts_of_few_values_may_come_as_a_dictionary() -> None:
    assert properties_of(tags=pa.array(["a", None, "a"]).dictionary_encode()) == [
        b"TAGS\x01a",
        b"",
        b"TAGS\x01a",
    ]


def test_null_and_empty_values_are_no_properties() -> None:
    assert properties_of(tags=pa.array([None, "", "t"]), keys=pa.array(["k", None, ""])) == [
        b"KEYS\x01k",
        b"",
        b"TAGS\x01t",
    ]


def test_a_null_flag_is_zero() -> None:
    columns = {"body": pa.array([b"", b""]), "flag": pa.array([None, -5], pa.int64())}
    assert [item.flag for item in items_of(columns)] == [0, -5]


def test_a_column_takes_the_place_of_a_property_of_its_name() -> None:
    given = {"TAGS": "old", "a": "1", "KEYS": "kept"}
    text = "\x02".join(f"{name}\x01{value}" for name, value in given.items())
    for properties in (maps(given), pa.array([text])):
        assert properties_of(
            properties=properties, tags=pa.array(["new"]), keys=pa.array([None], pa.string())
        ) == [b"a\x011\x02KEYS\x01kept\x02TAGS\x01new"]


def test_of_a_property_text_what_is_a_property_is_kept() -> None:
    texts = ["a\x011\x02", "\x02\x02a\x01\x02\x01b\x02c\x02d\x01e\x01f", "", None]
    assert properties_of(properties=pa.array(texts)) == [b"a\x011", b"d\x01e\x01f", b"", b""]


def test_a_null_map_has_no_properties() -> None:
    assert properties_of(properties=maps({"a": "1"}, None, {})) == [b"a\x011", b"", b""]


def test_slices_of_columns_are_encoded_as_what_they_show() -> None:
    rows = pa.RecordBatch.from_pydict(
        {
            "body": pa.array([b"one", b"two", b"three", b"four"]),
            "tags": pa.array(["1", None, "3", "4"]),
            "flag": pa.array([1, 2, 3, 4], pa.int32()),
            "properties": maps({"a": "1"}, {"b": "2"}, {"c": "3", "d": "3"}, {}),
        }
    ).slice(1, 2)
    (batch,) = encode_batches(rows, size_max=1000, count_max=10)
    assert decode_batch(batch.body) == [
        BatchItem(2, b"two", b"b\x012"),
        BatchItem(3, b"three", b"c\x013\x02d\x013\x02TAGS\x013"),
    ]


def test_no_rows_make_no_batch() -> None:
    rows = pa.RecordBatch.from_pydict({"body": pa.array([], pa.binary())})
    assert encode_batches(rows, size_max=1, count_max=1) == []


class TestCuts:
    rows = pa.RecordBatch.from_pydict({"body": pa.array([b"x" * size for size in (8, 18, 8, 8)])})
    sizes = (30, 40, 30, 30)

    def counts(self, size_max: int, count_max: int = 100) -> list[int]:
        batches = encode_batches(self.rows, size_max=size_max, count_max=count_max)
        assert [batch.first_row for batch in batches] == [
            sum(batch.row_count for batch in batches[:index]) for index in range(len(batches))
        ]
        assert all(len(batch.body) <= size_max for batch in batches)
        assert [len(decode_batch(batch.body)) for batch in batches] == [
            batch.row_count for batch in batches
        ]
        return [batch.row_count for batch in batches]

    @pytest.mark.parametrize(
        ("size_max", "counts"),
        [(40, [1, 1, 1, 1]), (69, [1, 1, 2]), (70, [2, 2]), (129, [3, 1]), (130, [4])],
    )
    def test_a_batch_is_as_large_as_it_may_be(self, size_max: int, counts: list[int]) -> None:
        assert self.counts(size_max) == counts

    @pytest.mark.parametrize(("count_max", "counts"), [(1, [1] * 4), (3, [3, 1]), (4, [4])])
    def test_a_batch_has_no_more_messages_than_it_may(
        self, count_max: int, counts: list[int]
    ) -> None:
        assert self.counts(1000, count_max) == counts

    def test_a_row_that_does_not_fit_alone_is_refused_by_number(self) -> None:
        with pytest.raises(RowTooLarge) as refused:
            self.counts(39)
        assert (refused.value.row, refused.value.size, refused.value.limit) == (1, 40, 39)
        assert isinstance(refused.value, TooLarge)


class TestRefused:
    bodies = pa.array([b"", b"", b""])

    @pytest.mark.parametrize(
        ("name", "value"),
        [("", "x"), ("a\x01", "x"), ("a\x02", "x"), ("a", "x\x02y"), ("a", ""), ("a", None)],
    )
    def test_a_property_that_would_not_be_read_back_as_it_is(
        self, name: str, value: str | None
    ) -> None:
        with pytest.raises(BadProperty) as refused:
            properties_of(properties=maps({"good": "1"}, {}, {"good": "1", name: value}))
        assert (refused.value.row, refused.value.name) == (2, name)
        assert refused.value.value == (value or "")
        assert isinstance(refused.value, BadMessage)

    @pytest.mark.parametrize("column", ["tags", "keys"])
    def test_tags_and_keys_with_a_separator(self, column: str) -> None:
        with pytest.raises(BadProperty) as refused:
            properties_of(**{column: pa.array(["good", "no\x02t", "no\x02t"])})
        assert (refused.value.row, refused.value.name) == (1, column.upper())

    def test_an_extra_property_with_a_separator(self) -> None:
        with pytest.raises(BadProperty) as refused:
            items_of({"body": self.bodies}, {"X": pa.array(["a", None, "\x02"])})
        assert (refused.value.row, refused.value.name) == (2, "X")

    def test_a_value_may_hold_what_stands_between_name_and_value(self) -> None:
        assert properties_of(tags=pa.array(["a\x01b"])) == [b"TAGS\x01a\x01b"]

    def test_properties_longer_than_their_size_can_say(self) -> None:
        fitting = "x" * (32767 - len("TAGS="))
        assert len(properties_of(tags=pa.array([fitting]))[0]) == 32767
        with pytest.raises(RowTooLarge) as refused:
            properties_of(tags=pa.array(["", fitting + "x"]))
        assert (refused.value.row, refused.value.size) == (1, 32768)

    def test_a_row_without_a_body(self) -> None:
        with pytest.raises(UnfitRow, match="body") as refused:
            items_of({"body": pa.array([b"", None])})
        assert refused.value.row == 1

    @pytest.mark.parametrize(
        ("columns", "name"),
        [
            ({"tags": pa.array(["a"])}, "body"),
            ({"body": pa.array([1])}, "body"),
            ({"body": pa.array([b""]), "tags": pa.array([1])}, "tags"),
            ({"body": pa.array([b""]), "keys": pa.array([["a"]])}, "keys"),
            ({"body": pa.array([b""]), "flag": pa.array(["1"])}, "flag"),
            ({"body": pa.array([b""]), "flag": pa.array([2**31])}, "flag"),
            ({"body": pa.array([b""]), "properties": pa.array([{"a": "b"}])}, "properties"),
        ],
    )
    def test_columns_that_are_missing_or_of_another_type(
        self, columns: dict[str, pa.Array], name: str
    ) -> None:
        with pytest.raises(BadColumn, match=name) as refused:
            items_of(columns)
        assert refused.value.name == name

    def test_an_extra_column_of_another_length(self) -> None:
        with pytest.raises(BadColumn, match="2 values"):
            items_of({"body": self.bodies}, {"X": pa.array(["a", "b"])})
