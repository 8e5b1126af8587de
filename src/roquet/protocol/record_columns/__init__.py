"""Many stored records as columns: the data pipeline's way to read messages.

Duty: a buffer of concatenated records becomes an Arrow RecordBatch, many times faster
than record by record. `decoder.py` is the way through, `columns.py` the table of columns.
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
from roquet.protocol.record_columns.irregular import IRREGULAR_SIZE_MAX
from roquet.protocol.record_columns.log_slices import FoundRecords, find_records

__all__ = [
    "COLUMN_NAMES",
    "DATA_SIZE_MAX",
    "IRREGULAR_SIZE_MAX",
    "FoundRecords",
    "PropertiesForm",
    "UnknownColumn",
    "decode_records",
    "find_records",
    "record_schema",
]
