"""Which files of a lake are opened."""

import pytest

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.jobs.message_frames import in_hours, topic_of
from roquet.pipeline.lake.entries import Birth
from roquet.pipeline.lake.file_names import published_path
from roquet.pipeline.lake.state import Wanted
from roquet.pipeline.planning import QueueRange

HOUR_MS = 3_600_000
PATHS = [f"topic=a/dt=1970-01-01/hour={hour:02}/a-b-0-0-1.parquet" for hour in range(4)]


@pytest.mark.parametrize(
    ("start_ms", "end_ms", "hours"),
    [
        (None, None, [0, 1, 2, 3]),
        (HOUR_MS, None, [1, 2, 3]),
        (HOUR_MS - 1, None, [0, 1, 2, 3]),
        (None, HOUR_MS, [0]),
        (None, HOUR_MS + 1, [0, 1]),
        (HOUR_MS, 2 * HOUR_MS, [1]),
        (9 * HOUR_MS, None, []),
    ],
)
def test_files_of_other_hours_are_left_out(
    start_ms: int | None, end_ms: int | None, hours: list[int]
) -> None:
    assert in_hours(PATHS, start_ms, end_ms) == [PATHS[hour] for hour in hours]


def test_a_file_without_an_hour_in_its_path_is_never_left_out() -> None:
    assert in_hours(["part.parquet"], 1, 2) == ["part.parquet"]


def test_the_topic_of_a_file_is_read_as_it_was_written() -> None:
    queue = QueueRef("%DLQ%g", "b", 0)
    path = published_path(Wanted(QueueRange(queue, 0, 1), 0, Birth()), 0, 1, 480_000)
    assert topic_of(path) == "%DLQ%g"
