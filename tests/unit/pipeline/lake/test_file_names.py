"""Names that say what is in a file, and that readers of Parquet see or do not see."""

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.lake.file_names import published_path, staged_path
from roquet.pipeline.planning import QueueRange
from tests.support.lake_pieces import wanted

# 2026-11-16T12:00Z.
HOUR = 1_794_830_400 // 3600


def test_a_name_says_queue_and_offsets_and_its_directory_when_it_was_stored() -> None:
    assert published_path(wanted(0, 100), 0, 60, HOUR) == (
        "topic=orders/dt=2026-11-16/hour=12/orders-broker-a-0-0-60.parquet"
    )


def test_the_second_incarnation_of_a_topic_has_names_of_its_own() -> None:
    assert published_path(wanted(0, 100, generation=2), 0, 60, HOUR).endswith("-0-0-60-g2.parquet")


def test_names_that_readers_would_skip_or_misread_are_escaped() -> None:
    hidden = wanted(0, 9)._replace(range=QueueRange(QueueRef("_x", "b", 0), 0, 9))
    retry = wanted(0, 9)._replace(range=QueueRange(QueueRef("%RETRY%g", "b/c", 0), 0, 9))
    assert published_path(hidden, 0, 9, HOUR).endswith("/%5Fx-b-0-0-9.parquet")
    assert published_path(retry, 0, 9, HOUR) == (
        "topic=%25RETRY%25g/dt=2026-11-16/hour=12/%25RETRY%25g-b%2Fc-0-0-9.parquet"
    )


def test_staged_files_are_no_parquet_by_name_and_never_the_same() -> None:
    names = {staged_path("run") for _ in range(10)}
    assert len(names) == 10
    assert all(name.startswith("_") and not name.endswith(".parquet") for name in names)
