"""The topics of a cluster as tables. It stands alone because it loads the client."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import final

import pyarrow as pa

from roquet.pipeline.connections import topic_reader
from roquet.pipeline.limits import ReadLimits
from roquet.pipeline.options.declaring import read_options
from roquet.pipeline.options.reading import ReadOptions
from roquet.pipeline.source.positions import batch_ranges, limited_ranges, with_tags
from roquet.pipeline.source.rows import pull_group, read_ranges
from roquet.pipeline.sql.tables import MessageTable


@final
class TopicTables:
    """`options` are those of format `rocketmq`, without a topic."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def names(self) -> list[str]:
        reading = read_options(ReadOptions, {**self._options, "topicPattern": ".*"})
        # Asked once: somebody waits, and an address that is wrong stays wrong.
        return topic_reader(reading.cluster, pull_group(reading)).topics()

    def table(self, name: str, on_rows: Callable[[int], None]) -> MessageTable:
        reading = read_options(ReadOptions, {**self._options, "topic": name})
        reader = topic_reader(reading.cluster, pull_group(reading))
        # The end is that of the first scan, so that all scans of a query have the same rows.
        ranges = batch_ranges(reader, reading)

        def scan(columns: Sequence[str], limits: ReadLimits) -> Iterator[pa.RecordBatch]:
            within = limited_ranges(reader, ranges, limits, reading)
            return read_ranges(with_tags(reading, limits), columns, within)

        return MessageTable(scan, on_rows)
