"""How far groups are behind, sampled, kept, and summed up."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from roquet import Admin, Message, Producer, QueueRef, TopicReader
from roquet.pipeline.jobs.lag import LagHistory, LagSample, LagTable, take_samples
from roquet.testing.blocking import BlockingCluster

START = datetime(2026, 11, 16, 12, tzinfo=UTC)
FIRST, SECOND = QueueRef("orders", "broker-a", 0), QueueRef("orders", "broker-a", 1)


@pytest.fixture(scope="module")
def shop() -> Iterator[BlockingCluster]:
    """Five messages in one queue; the group `billing` has taken three of them."""
    with BlockingCluster() as cluster:
        cluster.new_topic("orders", queues=2)
        with Producer(cluster.name_server, "sellers") as producer:
            for number in range(5):
                producer.send(Message("orders", b"%d" % number), queue=FIRST)
        with TopicReader(cluster.name_server) as reader:
            reader.commit("billing", {FIRST: 3})
        yield cluster


def sample(
    at_s: float, committed: int | None, end: int, *, group: str = "billing", lag_ms: int = 0
) -> LagSample:
    lag = None if committed is None else end - committed
    moment = START + timedelta(seconds=at_s)
    return LagSample(moment, group, FIRST, committed, end, lag, lag_ms)


def test_a_sample_has_each_queue_of_a_group(shop: BlockingCluster) -> None:
    with Admin(shop.name_server) as admin:
        samples = take_samples(admin, ["billing"], "orders")
    by_queue = {each.queue: each for each in samples}
    assert (by_queue[FIRST].committed, by_queue[FIRST].end, by_queue[FIRST].lag) == (3, 5, 2)
    # What was never read has no offset, and none is made up.
    if SECOND in by_queue:
        assert by_queue[SECOND].committed is None


def test_all_groups_are_sampled_if_none_is_named(shop: BlockingCluster) -> None:
    with Admin(shop.name_server) as admin:
        assert "billing" in {each.group for each in take_samples(admin, [], "orders")}


def test_samples_are_rows_of_parquet_files(tmp_path: Path) -> None:
    table = LagTable(tmp_path / "lag")
    table.add([sample(0, 3, 5, lag_ms=40), sample(0, None, 5, group="idle")])
    assert table.file_count == 0
    # After a minute a file is written.
    table.add([sample(61, 5, 5)])
    assert table.file_count == 1
    table.add([sample(62, 5, 6)])
    table.write()
    table.write()
    assert (table.file_count, table.row_count) == (2, 4)
    rows = ds.dataset(tmp_path / "lag", format="parquet").to_table().sort_by("sampled").to_pylist()
    assert [row["lag"] for row in rows if row["group"] == "billing"] == [2, 0, 1]
    assert rows[0]["sampled"] == START
    assert {row["lag"] for row in rows if row["group"] == "idle"} == {None}
    assert not list((tmp_path / "lag").glob(".*"))


def test_a_history_tells_how_it_began_ended_and_was_at_its_worst() -> None:
    history = LagHistory()
    history.add([sample(0, 0, 10, lag_ms=5)])
    history.add([sample(5, 0, 40, lag_ms=900)])
    history.add([sample(10, 40, 50, lag_ms=0)])
    (group,) = history.groups()
    assert (group.lag_first, group.lag_last, group.lag_max) == (10, 10, 40)
    assert group.lag_ms_max == 900
    assert group.samples == 3
    assert (group.read_per_second, group.sent_per_second) == (4.0, 4.0)


def test_one_sample_has_no_rate() -> None:
    history = LagHistory()
    history.add([sample(0, 3, 5), sample(0, None, 5, group="idle")])
    billing, idle = history.groups()
    assert billing.read_per_second is None
    assert (billing.lag_last, idle.lag_last) == (2, 0)
