"""Streams that run until nothing is left, and what their batches brought."""

from pathlib import Path
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row

# Spark gives the Python of a source ten seconds to start, which a busy machine does not always do.
_NOT_STARTED: Final = "Python worker failed to connect back"
_START_TRIES: Final = 3


def run_available(frame: DataFrame, checkpoint: Path) -> list[list[Row]]:
    """The rows of each batch. Raises StreamingQueryException."""
    batches: list[list[Row]] = []
    for left in reversed(range(_START_TRIES)):
        query = (
            frame.writeStream.foreachBatch(lambda rows, _number: batches.append(rows.collect()))
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if batches or not left or _NOT_STARTED not in str(error):
                raise
        else:
            break
    return batches
