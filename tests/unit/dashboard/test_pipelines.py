"""Groups that commit without members, their batches, and what lakes have left to read."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from roquet.client.admin.groups import ClientConnection, GroupMembers
from roquet.client.admin.progress import GroupProgress, QueueProgress
from roquet.client.admin.topics import QueueStatistics, TopicStatistics
from roquet.client.admin.waiting import DelayedMessages, WaitingMessages
from roquet.client.queue_ref import QueueRef
from roquet.dashboard.pages.pipelines import lake_row, query_rows
from roquet.dashboard.pipelines import (
    BatchWatch,
    LakeReport,
    LakeState,
    LakeWatch,
    commits_without_members,
    lake_queues,
)
from roquet.dashboard.snapshot import GroupDetails, Snapshot, TopicSample
from roquet.pipeline.errors import BadLake

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FIRST, SECOND = (QueueRef("orders", "a", number) for number in range(2))


def progress(group: str, *offsets: int, topic: str = "orders") -> GroupProgress:
    queues = (
        QueueProgress(QueueRef(topic, "a", number), 100, offset, offset, NOW, timedelta(0))
        for number, offset in enumerate(offsets)
    )
    return GroupProgress(group, tuple(queues), 0.0)


def snapshot(*found: GroupProgress, members: tuple[str, ...] = (), after_s: int = 0) -> Snapshot:
    connections = (ClientConnection("c", None, None, 0),)
    return Snapshot(
        NOW + timedelta(seconds=after_s),
        float(after_s),
        groups={each.group: {} for each in found},
        progress={each.group: each for each in found},
        group_details={
            each.group: GroupDetails(
                0.0, each, GroupMembers(connections if each.group in members else ())
            )
            for each in found
        },
    )


def test_groups_with_members_and_stopped_consumers_are_no_queries() -> None:
    stopped = progress("stopped", 5)
    retries = progress("stopped", 0, topic="%RETRY%stopped").queues
    stopped = GroupProgress("stopped", stopped.queues + retries, 0.0)
    failing = progress("failing", 5)
    found = snapshot(progress("spark", 5), progress("busy", 5), stopped, failing, members=("busy",))
    dead = {"failing": TopicStatistics("%DLQ%failing", ())}
    assert list(commits_without_members(replace(found, dead=dead))) == ["spark"]
    retrying = WaitingMessages(retries={"failing": DelayedMessages(1)})
    assert list(commits_without_members(replace(found, waiting=retrying))) == ["spark"]


def test_a_batch_is_seen_when_offsets_move() -> None:
    watch = BatchWatch()
    watch.observe(snapshot(progress("spark", 5, 5)))
    assert watch.batches == {}
    watch.observe(snapshot(progress("spark", 15, 7), after_s=10))
    watch.observe(snapshot(progress("spark", 15, 7), after_s=20))
    (batch,) = watch.batches.values()
    assert (batch.seen, batch.rows) == (NOW + timedelta(seconds=10), 12)
    watch.observe(snapshot(after_s=30))
    assert watch.batches == {}


def test_the_query_that_is_furthest_behind_comes_first() -> None:
    found = snapshot(progress("near", 99), progress("far", 1))
    far, near = query_rows(found, {})
    assert (far.name, far.lag, far.topics, far.last_taken) == ("far", 99, ("orders",), NOW)
    assert (near.name, near.batch) == ("near", None)


def statistics(*ends: int, first: int = 0) -> TopicStatistics:
    return TopicStatistics(
        "orders",
        tuple(
            QueueStatistics(QueueRef("orders", "a", number), first, end, NOW)
            for number, end in enumerate(ends)
        ),
    )


def test_what_brokers_have_beyond_a_lake_is_its_lag() -> None:
    report = LakeReport(ends={FIRST: 60})
    queues = lake_queues(report, {"orders": statistics(100, 30)})
    assert queues is not None
    assert [(each.end, each.lag) for each in queues] == [(60, 40), (None, 30)]
    expired = lake_queues(report, {"orders": statistics(100, first=90)})
    assert expired is not None
    assert [each.lag for each in expired] == [10]


def test_the_lag_is_unknown_without_the_ends_of_all_topics() -> None:
    report = LakeReport(ends={FIRST: 60, QueueRef("gone", "a", 0): 5})
    state = LakeState("lake", report)
    samples = {"orders": TopicSample(0.0, statistics(100))}
    row = lake_row(state, Snapshot(NOW, 0.0, topic_samples=samples))
    assert (row.lag, row.queues) == (None, ())


class FailingLake:
    """Read once, and then no more."""

    path = "lake"

    def __init__(self) -> None:
        self.is_damaged = False

    def read(self) -> LakeReport:
        if self.is_damaged:
            raise BadLake("entry 2 is damaged")
        return LakeReport(rows=3)


async def test_a_lake_that_cannot_be_read_keeps_what_was_known() -> None:
    lake = FailingLake()
    watch = LakeWatch([lake])
    await watch.read()
    lake.is_damaged = True
    await watch.read()
    (state,) = watch.states
    assert state.report == LakeReport(rows=3)
    assert state.problem == "entry 2 is damaged"
    assert state.taken is not None
