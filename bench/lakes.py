"""How long a job takes to open a lake that has had many commits, format by format.

    python -m bench.lakes [--commits 100000]

A commit here adds one file of one queue, and nothing was ever compacted. Logs of Parquet lakes and
Delta tables are written without their files. An Iceberg table forgets old snapshots with each
commit, so that its metadata is largest after `SNAPSHOTS_MAX` of them: it gets no more than these.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from deltalake import DeltaTable

from roquet.pipeline.lake.entries import ENTRY_VERSION, LakeEntry, LakePiece
from roquet.pipeline.lake.iceberg_library import SNAPSHOTS_MAX
from roquet.pipeline.lake.opening import open_existing_lake, open_lake
from tests.support.lake_pieces import QUEUE
from tests.support.lake_rows import message_batch, staged_rows
from tests.support.table_places import new_settings
from tests.support.written_lakes import new_lake

COMMITS: Final = 100_000
ROUNDS: Final = 5
GOAL_S: Final = 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=COMMITS)
    commits = parser.parse_args().commits
    print(f"{f'open a lake after {commits} commits, ms':48}{'':>8}{'goal':>8}")
    for name, write in LAKES.items():
        with tempfile.TemporaryDirectory(prefix="roquet-bench-") as directory:
            lake = Path(directory) / "lake"
            write(lake, commits)
            shortest_s = min(opening_s(lake, commits) for _ in range(ROUNDS))
            print(f"{name:48}{shortest_s * 1000:8.0f}{GOAL_S * 1000:8.0f}", flush=True)


def opening_s(lake: Path, commits: int) -> float:
    start_s = time.perf_counter()
    with open_existing_lake(lake) as opened:
        elapsed_s = time.perf_counter() - start_s
        [(start, end)] = opened.state.covered(QUEUE)
    assert (start, end) == (0, min(end, commits))
    return elapsed_s


def write_parquet(lake: Path, commits: int) -> None:
    log = new_lake(lake)
    for number in range(commits):
        path = f"topic={QUEUE.topic}/dt=2026-11-16/hour=12/{number}.parquet"
        piece = LakePiece(*QUEUE, number, number + 1, 1, 1000, path, path)
        log.append(LakeEntry(ENTRY_VERSION, number + 1, number, [piece]))
    # That the files of the last entry are where they belong is checked.
    (lake / path).parent.mkdir(parents=True)
    (lake / path).write_bytes(bytes(1000))


def write_delta(lake: Path, commits: int) -> None:
    """After some real commits, others like them, and the checkpoints that the library writes."""
    table = open_lake(lake, new_settings("delta"))
    for number in range(2):
        table.publish(staged_rows(table, message_batch(0, [number])))
    log = lake / "_delta_log"
    last = (log / f"{2:020}.json").read_text()
    for number in range(2, commits - 1):
        entry = last.replace('"version":2', f'"version":{number + 1}')
        entry = entry.replace("broker-a-0-1-", f"broker-a-0-{number}-")
        (log / f"{number + 1:020}.json").write_text(entry)
    DeltaTable(lake).create_checkpoint()
    again = open_existing_lake(lake)
    again.publish(staged_rows(again, message_batch(0, [commits - 1])))


def write_iceberg(lake: Path, commits: int) -> None:
    table = open_lake(lake, new_settings("iceberg"))
    for number in range(min(commits, SNAPSHOTS_MAX)):
        table.publish(staged_rows(table, message_batch(0, [number])))


LAKES: Final[dict[str, Callable[[Path, int], None]]] = {
    "Parquet": write_parquet,
    "Delta": write_delta,
    f"Iceberg (after {SNAPSHOTS_MAX})": write_iceberg,
}


if __name__ == "__main__":
    main()
