"""Records as tables: chunks decoded into Arrow columns, and tables as data frames.

numpy and pyarrow are loaded by the first table; a client without them does everything else.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from roquet.client.errors import BadArgument
from roquet.client.reader.chunk import RecordChunk

if TYPE_CHECKING:
    import pyarrow as pa

    from roquet.protocol.record_columns import PropertiesForm

_TOPIC: Final = "topic"
_OFFSET: Final = "queueOffset"


def check_columns(columns: Sequence[str] | None) -> list[str]:
    """The columns to decode, all of them for None.

    Raises ImportError without the libraries, and BadArgument for a column that messages lack.
    """
    if not all(map(find_spec, ("numpy", "pyarrow"))):
        raise ImportError("tables of messages need numpy and pyarrow: pip install roquet[sql]")
    from roquet.protocol.record_columns import COLUMN_NAMES  # noqa: PLC0415

    wanted = list(COLUMN_NAMES if columns is None else columns)
    unknown = [name for name in wanted if name not in COLUMN_NAMES]
    if unknown or not wanted:
        what = f"has {unknown[0]!r}" if unknown else "is empty"
        raise BadArgument(f"`columns` {what}: messages have {', '.join(COLUMN_NAMES)}", "columns")
    return wanted


def decode_chunk(
    chunk: RecordChunk, columns: Sequence[str], properties: "PropertiesForm | None" = None
) -> "pa.RecordBatch":
    """The messages of a chunk, in exactly these columns; properties as a map by default."""
    from roquet.protocol.record_columns import PropertiesForm, decode_records  # noqa: PLC0415

    batch = decode_records(
        chunk.data,
        columns,
        properties=properties or PropertiesForm.MAP,
        broker_name=chunk.queue.broker_name,
    )
    if batch.num_rows == chunk.count:
        return batch
    # Loads for longer than most commands take to decode.
    import pyarrow.compute as pc  # noqa: PLC0415

    # A record of 5.x may hold many messages, some of them outside of the requested range.
    offsets = decode_records(chunk.data, [_OFFSET]).column(0)
    is_inside = pc.and_(
        pc.greater_equal(offsets, chunk.start_offset), pc.less(offsets, chunk.next_offset)
    )
    return batch.filter(is_inside)


def table_of(batches: Sequence["pa.RecordBatch"], columns: Sequence[str], topic: str) -> "pa.Table":
    """The rows of all batches. `topic` is its name without a namespace, which records have."""
    import pyarrow as pa  # noqa: PLC0415

    from roquet.protocol.record_columns import PropertiesForm, record_schema  # noqa: PLC0415

    table = pa.Table.from_batches(batches, record_schema(columns, PropertiesForm.MAP))
    if _TOPIC not in columns:
        return table
    names = pa.repeat(pa.scalar(topic, pa.string()), table.num_rows)
    return table.set_column(table.schema.get_field_index(_TOPIC), table.field(_TOPIC), names)


def polars_frame(table: "pa.Table") -> Any:
    """Raises ImportError."""
    import polars as pl  # noqa: PLC0415

    return pl.from_arrow(table)
