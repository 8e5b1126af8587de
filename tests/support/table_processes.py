"""Processes that fill and compact one table until they are killed, without brokers and Spark.

All writers want the same messages; the table decides who adds them. A process reports each step
before it takes it, so that it can be killed while it stages files, commits or compacts.
"""

import signal
from contextlib import suppress
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection
from random import Random
from typing import Final, final

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import PlanOutdated
from roquet.pipeline.lake.files import MissingRange
from roquet.pipeline.lake.opening import open_existing_lake
from roquet.pipeline.lake.places import LakePlace
from roquet.pipeline.lake.table import TableLake
from roquet.pipeline.planning import QueueRange
from tests.support.lake_rows import TOPIC, compact_all, message_batch, staged_rows

QUEUES: Final = 3
_STEP_ROWS_MAX: Final = 12
_PATIENCE_S: Final = 120

# Processes are forked from one that has imported everything; it has no threads.
_processes = get_context("forkserver")
_processes.set_forkserver_preload(
    [__name__, "deltalake", "pyiceberg.catalog.sql", "roquet.pipeline.lake.iceberg_library"]
)


@final
class TableProcess:
    """A writer that adds the messages of each queue before `end`, or a compactor without an end."""

    def __init__(self, place: LakePlace, end: int | None, seed: int) -> None:
        self._steps, sender = _processes.Pipe(duplex=False)
        self._process = _processes.Process(
            target=_compact if end is None else _write,
            args=(place, sender) if end is None else (place, sender, end, seed),
            daemon=True,
        )
        self._process.start()
        sender.close()

    def is_in_a_step(self) -> bool:
        """Waits for one; False if the process has ended, having nothing left to do."""
        assert self._steps.poll(_PATIENCE_S), "the process neither works nor ends"
        try:
            while self._steps.poll():
                self._steps.recv()
        except EOFError:
            self._join()
            assert self._process.exitcode == 0
            return False
        return True

    def kill(self) -> None:
        self._process.kill()
        self._join()
        assert self._process.exitcode in (0, -signal.SIGKILL)

    def _join(self) -> None:
        self._process.join(_PATIENCE_S)
        self._steps.close()


def fill(place: LakePlace, end: int, chance: Random, steps: Connection | None = None) -> None:
    """Adds what the table lacks, some of it in each step."""
    lake = open_existing_lake(place)
    wanted = [QueueRange(QueueRef(TOPIC, "broker-a", each), 0, end) for each in range(QUEUES)]
    while missing := lake.missing(wanted, {}).wanted:
        if steps is not None:
            steps.send(None)
        pieces = [
            piece
            for each in chance.sample(missing, min(len(missing), 2))
            for piece in staged_rows(
                lake, message_batch(each.range.queue.queue_id, _part(each, chance))
            )
        ]
        # Another writer added a part of it first.
        with suppress(PlanOutdated):
            lake.publish(pieces)


def _part(missing: MissingRange, chance: Random) -> range:
    start = missing.range.start
    return range(start, min(missing.range.end, start + chance.randint(1, _STEP_ROWS_MAX)))


# What happens in the other process.


def _write(place: LakePlace, steps: Connection, end: int, seed: int) -> None:
    fill(place, end, Random(seed), steps)


def _compact(place: LakePlace, steps: Connection) -> None:
    while True:
        lake = open_existing_lake(place)
        assert isinstance(lake, TableLake)
        steps.send(None)
        compact_all(lake)
        lake.expire(timedelta(hours=1))
        lake.remove_orphans(timedelta(hours=1))
