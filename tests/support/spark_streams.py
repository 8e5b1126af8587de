"""Streams that run until nothing is left, and what their batches brought."""

from pathlib import Path

from pyspark.sql import DataFrame, Row

from tests.support.spark_workers import finished


def run_available(frame: DataFrame, checkpoint: Path) -> list[list[Row]]:
    """The rows of each batch. Raises StreamingQueryException."""
    batches: dict[int, list[Row]] = {}

    def keep(rows: DataFrame, number: int) -> None:
        # A batch that is run again, by a query that is started again, counts once.
        batches[number] = rows.collect()

    finished(
        frame.writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start
    )
    return [batches[number] for number in sorted(batches)]
