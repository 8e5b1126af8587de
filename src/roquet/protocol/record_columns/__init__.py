"""Many stored records as columns: the data pipeline's way to read messages, and back.

Duty: a buffer of concatenated records becomes an Arrow RecordBatch, many times faster
than record by record, and columns become the bodies of batch sends. `decoder.py` is the way
in, `columns.py` the table of columns, `log_slices.py` finds records, `encoding.py` is the way out.
Doors: this package alone in `protocol` imports pyarrow, an extra; nothing of `protocol`
imports this package.
"""

from roquet.protocol.record_columns.columns import (
    COLUMN_NAMES,
    PropertiesForm,
    UnknownColumn,
    record_schema,
)
from roquet.protocol.record_columns.decoder import DATA_SIZE_MAX, decode_records
from roquet.protocol.record_columns.encoding import EncodedBatch, encode_batches
from roquet.protocol.record_columns.irregular import IRREGULAR_SIZE_MAX
from roquet.protocol.record_columns.log_slices import FoundRecords, find_records
from roquet.protocol.record_columns.row_errors import BadColumn, BadProperty, RowTooLarge, UnfitRow

__all__ = [
    "COLUMN_NAMES",
    "DATA_SIZE_MAX",
    "IRREGULAR_SIZE_MAX",
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
