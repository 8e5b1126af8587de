"""Rows of one key, found in the files of a table and left out of rewritten ones. Done by tasks."""

from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from roquet.pipeline.lake.entries import LakeFile
from roquet.pipeline.lake.files import rewritten_table_path
from roquet.pipeline.lake.latest import has_key, key_texts
from roquet.pipeline.lake.places import LakePlace, Storage
from roquet.pipeline.lake.staging import TableFile, TableStaging

# A message may have several keys, with spaces between them.
KEYS_COLUMN: Final = "keys"
_ROWS_AT_ONCE: Final = 16_384


class Forgotten(NamedTuple):
    """A key, and the column in which it is looked for."""

    key: str
    column: str = KEYS_COLUMN

    def can_be_in(self, schema: pa.Schema) -> bool:
        """False for files that lack the column: those of the quarantine, and those written before
        the lake had it. Their `keys` are not searched instead: they may be those of others.
        """
        return has_key(schema, self.column)

    def is_in(self, rows: pa.Table) -> pa.Array:
        """Of each row."""
        texts = key_texts(rows, self.column)
        if self.column == KEYS_COLUMN:
            framed = pc.binary_join_element_wise("", texts, "", " ")
            found = pc.match_substring(framed, f" {self.key} ")
        else:
            found = pc.equal(texts, self.key)
        return pc.fill_null(found, fill_value=False)

    def columns(self, schema: pa.Schema) -> list[str]:
        """Those that `is_in` needs."""
        name = self.column
        return [name if name in schema.names else name.partition(".")[0]]


class RewrittenFile(NamedTuple):
    """It had `removed` rows of the key; `file` has the other rows, if there are any."""

    path: str
    removed: int
    file: LakeFile | None = None


def count_rows(place: LakePlace, forgotten: Forgotten, path: str) -> int | None:
    """None if the file lacks the column. Raises FileNotFoundError."""
    with TableStaging(place).read(path) as source:
        if not forgotten.can_be_in(source.schema_arrow):
            return None
        columns = forgotten.columns(source.schema_arrow)
        return sum(
            pc.sum(forgotten.is_in(pa.Table.from_batches([rows]))).as_py() or 0
            for rows in source.iter_batches(_ROWS_AT_ONCE, columns=columns)
        )


def rewrite_without(place: LakePlace, forgotten: Forgotten, path: str) -> RewrittenFile | None:
    """The new file is not listed yet; None if the old one is gone, compacted by another process."""
    try:
        count = count_rows(place, forgotten, path)
        if not count:
            return RewrittenFile(path, 0)
        return RewrittenFile(path, count, _written(place, forgotten, path))
    except FileNotFoundError:
        return None


def _written(place: LakePlace, forgotten: Forgotten, path: str) -> LakeFile | None:
    with TableStaging(place).read(path) as source:
        new_path = rewritten_table_path(path)
        file = TableFile(Storage(place), new_path, source.schema_arrow)
        is_empty = True
        try:
            for rows in source.iter_batches(_ROWS_AT_ONCE):
                left = rows.filter(pc.invert(forgotten.is_in(pa.Table.from_batches([rows]))))
                if left.num_rows:
                    file.add(left)
                    is_empty = False
            if not is_empty:
                return file.close(new_path)
        except BaseException:
            file.abandon()
            raise
        file.abandon()
        return None
