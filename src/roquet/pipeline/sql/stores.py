"""The topics of a store directory as tables. It stands alone: queries of topics need no store."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import final

import pyarrow as pa

from roquet.pipeline.limits import ReadLimits
from roquet.pipeline.options.declaring import read_options
from roquet.pipeline.options.reading import StoreOptions
from roquet.pipeline.sql.tables import MessageTable
from roquet.pipeline.store_source.rows import StoreSplit, read_split
from roquet.pipeline.store_source.splits import (
    splits_of,
    store_directory,
    user_topics,
    within_times,
)
from roquet.store.offline.reader import StoreReader


@final
class StoreTables:
    """`options` are those of format `rocketmq-store`, without a topic."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def names(self) -> list[str]:
        everything = read_options(StoreOptions, {**self._options, "topicPattern": ".*"})
        with StoreReader.open(store_directory(everything)) as reader:
            return user_topics(reader)

    def table(self, name: str, on_rows: Callable[[int], None]) -> MessageTable:
        options = read_options(StoreOptions, {**self._options, "topic": name})

        # All scans of a query have the same rows.
        @cache
        def splits(limits: ReadLimits) -> list[StoreSplit]:
            return splits_of(within_times(options, limits.stored_ms), limits)

        def scan(columns: Sequence[str], limits: ReadLimits) -> Iterator[pa.RecordBatch]:
            within = within_times(options, limits.stored_ms)
            return (
                batch for split in splits(limits) for batch in read_split(within, columns, split)
            )

        return MessageTable(scan, on_rows)
