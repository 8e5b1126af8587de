"""Many stored records as columns: the data pipeline's way to read messages, and back.

Duty: a buffer of concatenated records becomes an Arrow RecordBatch, many times faster
than record by record, and columns become the bodies of batch sends. `decoder.py` reads,
`columns.py` is the table of columns, `record_starts.py` finds records, `encoding.py` writes.
Dependencies: this package alone in `protocol` imports pyarrow, an extra; nothing of `protocol`
imports this package.
"""

from roquet.protocol.record_columns.columns import (
    COLUMN_NAMES,
    PropertiesForm,
    UnknownColumn,
    record_schema,
)
from roquet.protocol.record_columns.decoder import DATA_SIZE_MAX, UNCOMMON_SIZE_MAX, decode_records
from roquet.protocol.record_columns.encoding import EncodedBatch, encode_batches
from roquet.protocol.record_columns.record_starts import (
    FoundRecords,
    find_records,
)
from roquet.protocol.record_columns.row_errors import BadColumn, BadProperty, RowTooLarge, UnfitRow

__all__ = [
    "COLUMN_NAMES",
    "DATA_SIZE_MAX",
    "UNCOMMON_SIZE_MAX",
    "BadColumn",
    "BadProperty",
    "EncodedBatch",
    "FoundRecords",
    "PropertiesForm",
    "RowTooLarge",
    "UnfitRow",
    "UnknownColumn",
    "decode_records",
    "encode_batches",
    "find_records",
    "record_schema",
]
