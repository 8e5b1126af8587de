"""What all decoders of bodies share: rows in, columns and reasons out. Pure."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from roquet.protocol.record_columns import COLUMN_NAMES

REASON_COLUMN: Final = "reason"
BODY_COLUMN: Final = "body"
# Names that columns of bodies cannot have: messages have them, or directories.
RESERVED: Final = frozenset(name.lower() for name in (*COLUMN_NAMES, REASON_COLUMN, "dt", "hour"))
_MISFITS: Final = (pa.ArrowException, ValueError, OverflowError, TypeError)


class DecodedRows(NamedTuple):
    """Rows with columns from their bodies, and rows that could not be decoded, with the reason.

    `unknown` are keys of schemas that were missing: with them, some of `bad` may be good.
    """

    good: pa.RecordBatch
    bad: pa.RecordBatch
    unknown: frozenset[str] = frozenset()


class BodyDecoder(Protocol):
    """Each row is in one of both parts of the result, in their order."""

    def decode(self, rows: pa.RecordBatch) -> DecodedRows: ...


class Body(NamedTuple):
    """The decoded value, or the reason why there is none."""

    value: Any
    reason: str | None = None


class BodyColumn(Protocol):
    """A column of many bodies at once."""

    @property
    def field(self) -> pa.Field: ...

    def filled(self, bodies: Sequence[Any]) -> pa.Array:
        """Raises ValueError, TypeError, OverflowError and ArrowException."""


def decoded_rows(
    rows: pa.RecordBatch, bodies: Sequence[Body], columns: Sequence[BodyColumn]
) -> DecodedRows:
    """The rows, by what their bodies are."""
    try:
        filled = _filled(bodies, columns)
    except _MISFITS:
        # Some value has the right type, but is too large or too precise.
        bodies = [_checked(each, columns) for each in bodies]
        filled = _filled(bodies, columns)
    is_good = pa.array([each.reason is None for each in bodies], pa.bool_())
    good, bad = rows.filter(is_good), rows.filter(pc.invert(is_good))
    for column, values in zip(columns, filled, strict=True):
        good = good.append_column(column.field, values)
    reasons = [each.reason for each in bodies if each.reason is not None]
    return DecodedRows(good, bad.append_column(REASON_COLUMN, pa.array(reasons, pa.string())))


def _filled(bodies: Sequence[Body], columns: Sequence[BodyColumn]) -> list[pa.Array]:
    good = [body.value for body in bodies if body.reason is None]
    return [column.filled(good) for column in columns]


def _checked(body: Body, columns: Sequence[BodyColumn]) -> Body:
    for column in columns if body.reason is None else ():
        try:
            column.filled([body.value])
        except _MISFITS as error:
            return Body(None, f"{error} - at `$.{column.field.name}`")
    return body
