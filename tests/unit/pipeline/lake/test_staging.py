"""What a task writes: Parquet by hours, covering every offset that was wanted."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.metadata import LakeSettings, make_settings
from roquet.pipeline.lake.staging import PosixStaging, StagedWriter, lake_columns
from roquet.protocol.record_columns import PropertiesForm
from tests.support.lake_pieces import wanted

NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    make_settings(tmp_path, LakeSettings())
    return tmp_path


def test_a_machine_that_does_not_see_the_lake_writes_nothing(tmp_path: Path) -> None:
    writer = StagedWriter(PosixStaging(tmp_path / "lake", "run"))
    with pytest.raises(BadLake, match="does not see the lake"):
        list(writer.write(wanted(0, 1), [batch([0], [0])]))
    assert not list(tmp_path.iterdir())


def batch(offsets: Sequence[int], hours: Sequence[int]) -> pa.RecordBatch:
    stored = [
        NOON + timedelta(hours=hour, minutes=offset)
        for offset, hour in zip(offsets, hours, strict=True)
    ]
    return pa.RecordBatch.from_pydict(
        {
            "queueOffset": pa.array(offsets, pa.int64()),
            "storeTimestamp": pa.array(stored, pa.timestamp("us", tz="UTC")),
        }
    )


def test_a_file_ends_where_the_hour_changes_also_when_a_clock_steps_back(lake: Path) -> None:
    batches = [batch([0, 1, 2], [0, 0, 1]), batch([3, 4], [1, 0])]
    pieces = list(StagedWriter(PosixStaging(lake, "run")).write(wanted(0, 5), batches))
    found = [(each.start, each.end, each.rows, each.path.split("/")[2]) for each in pieces]
    assert found == [(0, 2, 2, "hour=12"), (2, 4, 2, "hour=13"), (4, 5, 1, "hour=12")]
    for each in pieces:
        path = lake / each.staged
        assert path.stat().st_size == each.bytes
        offsets = pq.read_table(path)["queueOffset"].to_pylist()
        assert offsets == list(range(each.start, each.end))


def test_offsets_without_a_message_belong_to_a_piece_too(lake: Path) -> None:
    pieces = list(
        StagedWriter(PosixStaging(lake, "run")).write(wanted(0, 9), [batch([3, 6], [0, 1])])
    )
    assert [(each.start, each.end, each.rows) for each in pieces] == [(0, 6, 1), (6, 9, 1)]


def test_where_no_message_passed_the_filter_there_is_a_piece_and_no_file(lake: Path) -> None:
    [piece] = StagedWriter(PosixStaging(lake, "run")).write(wanted(0, 9), [])
    assert (piece.start, piece.end, piece.rows, piece.path, piece.staged) == (0, 9, 0, "", "")
    assert not (lake / "_roquet/staged").exists()


def test_a_task_that_fails_leaves_no_file(lake: Path) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield batch([0], [0])
        raise ConnectionError

    with pytest.raises(ConnectionError):
        list(StagedWriter(PosixStaging(lake, "run")).write(wanted(0, 9), batches()))
    assert not list(lake.rglob("*.staged"))


def test_the_topic_is_in_the_directory_and_not_in_the_file() -> None:
    assert "topic" not in lake_columns(PropertiesForm.MAP)
    assert "properties" in lake_columns(PropertiesForm.STRING)
    assert "properties" not in lake_columns(PropertiesForm.NONE)
