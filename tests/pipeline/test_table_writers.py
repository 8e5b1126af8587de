"""A table has each message once, though writers and compactors of it are killed all the time.

Without brokers and Spark, so that many kills take seconds; `test_table_kills.py` kills whole jobs.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import NamedTuple

import pytest
from pyarrow import fs

from roquet.pipeline.lake.opening import open_existing_lake, open_lake
from roquet.pipeline.lake.places import LakePlace, Storage
from roquet.pipeline.lake.table import TableLake
from roquet.pipeline.sql.lakes import LakeTables
from roquet.pipeline.sql.query import run_sql
from tests.support.eventually import let_run
from tests.support.gates import IS_LONG, IS_QUICK
from tests.support.lake_rows import TOPIC, Found, compact_all
from tests.support.table_judges import JUDGES, found_in
from tests.support.table_places import catalog_for, new_settings, table_place
from tests.support.table_processes import QUEUES, TableProcess, fill

KILLS = 200 if IS_LONG else 4 if IS_QUICK else 20
# Of each queue, for each process that is started.
ROWS = 30
WRITERS, COMPACTORS = 2, 2
# Of a step that is interrupted.
STEP_S = 0.2

PLACES = [
    pytest.param(
        (table_format, where),
        id=f"{table_format}-{where}",
        marks=() if is_quick else pytest.mark.full("the same in other places"),
    )
    for table_format, where, is_quick in (
        ("delta", "s3", True),
        ("iceberg", "directory", True),
        ("delta", "faulty-s3", False),
        ("delta", "directory", False),
        ("delta", "versitygw", False),
        ("iceberg", "faulty-s3", False),
        ("iceberg", "versitygw", False),
    )
]


class Survived(NamedTuple):
    table_format: str
    lake: LakePlace
    sent: Found


@pytest.fixture(scope="module", params=PLACES)
def survived(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Survived]:
    table_format, where = request.param
    directory = tmp_path_factory.mktemp("writers")
    with table_place(where, directory) as place:
        catalog = catalog_for(table_format, place, directory)
        open_lake(place, new_settings(table_format), catalog=catalog)
        end = _kill_again_and_again(place, Random(20261118))
        fill(place, end, Random(0))
        sent = Counter((queue, offset) for queue in range(QUEUES) for offset in range(end))
        yield Survived(table_format, place, sent)


def _kill_again_and_again(place: LakePlace, chance: Random) -> int:
    """Each process that is gone is replaced by one that wants more; the end of all queues."""
    end = 0

    def started(index: int) -> TableProcess:
        nonlocal end
        if index >= WRITERS:
            return TableProcess(place, None, 0)
        end += ROWS
        return TableProcess(place, end, chance.randrange(1 << 30))

    running = [started(index) for index in range(WRITERS + COMPACTORS)]
    kills = 0
    while kills < KILLS:
        # The compactors die as often as the writers.
        index = chance.randrange(len(running))
        if running[index].is_in_a_step():
            let_run(chance.random() * STEP_S)
            running[index].kill()
            kills += 1
        running[index] = started(index)
    for each in running:
        each.kill()
    return end


def test_the_table_has_each_message_once(survived: Survived) -> None:
    assert found_in(JUDGES[survived.table_format].rows(survived.lake)) == survived.sent


def test_duckdb_finds_each_message_once(survived: Survived) -> None:
    statement = f'select queueId, queueOffset from "{TOPIC}"'  # noqa: S608
    with run_sql(statement, LakeTables(survived.lake)) as result:
        assert Counter(map(tuple, result.rows)) == survived.sent


def test_what_the_killed_ones_left_behind_can_be_removed(survived: Survived) -> None:
    lake = open_existing_lake(survived.lake)
    assert isinstance(lake, TableLake)
    compact_all(lake)
    lake.expire(timedelta(0))
    lake.remove_orphans(timedelta(0))
    assert found_in(JUDGES[survived.table_format].rows(survived.lake)) == survived.sent
    assert _data_files(survived.lake) == {file.path for file in lake.files()}


def _data_files(place: LakePlace) -> set[str]:
    storage = Storage(place)
    below = fs.FileSelector(storage.root, recursive=True)
    return {
        each.path.removeprefix(f"{storage.root}/")
        for each in storage.filesystem.get_file_info(below)
        if each.path.endswith(".parquet") and "/topic=" in each.path
    }
