"""Samples of the cluster's state, and tables with rates made of two of them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.cluster import BrokerInfo
from roquet.client.admin.groups import GroupMembers
from roquet.client.admin.progress import GroupProgress
from roquet.client.admin.rates import Offsets, ends_of, rate_between, taken_by
from roquet.client.admin.topics import TopicStatistics
from roquet.client.errors import GroupNotFound, TopicNotFound
from roquet.reporting import Fact, ReportTable

T = TypeVar("T")

# Concurrent requests: a sample must not load the cluster.
_AT_ONCE: Final = 8
_TOPIC_COLUMNS: Final = ("topic", "rate", "messages", "queues", "last_stored")
_GROUP_COLUMNS: Final = ("group", "members", "rate", "lag", "behind_s", "topics")
_BROKER_COLUMNS: Final = (
    *("broker", "role", "address", "version", "put_rate", "get_rate", "disk_used_ratio", "problem"),
)


@dataclass(frozen=True, slots=True)
class GroupSample:
    progress: GroupProgress
    members: GroupMembers


@dataclass(frozen=True, slots=True)
class Sample:
    time_s: float
    brokers: tuple[BrokerInfo, ...]
    topics: Mapping[str, TopicStatistics]
    groups: Mapping[str, GroupSample]
    # Which brokers it is without, and why.
    problem: str | None = None


async def take_sample(admin: AsyncAdmin, *, is_of_brokers: bool = False) -> Sample:
    """Without the brokers that do not answer. Raises ClientError if no name server answers.

    `admin` is a `partial` one that has not been asked before. Topics and groups deleted meanwhile
    are left out; all of them if only brokers are looked at.
    """
    if is_of_brokers:
        brokers = tuple(await admin.brokers())
        problem = next((each.error for each in brokers if each.error is not None), None)
        return Sample(asyncio.get_running_loop().time(), brokers, {}, {}, problem)
    listed, (topics, groups) = await asyncio.gather(admin.brokers(), _topics_and_groups(admin))
    without = ", ".join(f"{each.broker_name} ({each.reason})" for each in admin.missing)
    return Sample(
        asyncio.get_running_loop().time(),
        tuple(listed),
        topics,
        groups,
        f"without {without}" if without else None,
    )


async def _topics_and_groups(
    admin: AsyncAdmin,
) -> tuple[Mapping[str, TopicStatistics], Mapping[str, GroupSample]]:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def each(names: list[str], ask: Callable[[str], Awaitable[T]]) -> dict[str, T]:
        async def one(name: str) -> T | None:
            async with gate:
                try:
                    return await ask(name)
                except (TopicNotFound, GroupNotFound):
                    return None

        answers = await asyncio.gather(*map(one, names))
        return {
            name: answer for name, answer in zip(names, answers, strict=True) if answer is not None
        }

    async def group(name: str) -> GroupSample:
        return GroupSample(await admin.progress(name), await admin.members(name))

    topics, groups = await asyncio.gather(admin.topics(), admin.groups())
    return await each(topics, admin.topic_statistics), await each(groups, group)


def topics_table(before: Sample | None, now: Sample) -> ReportTable:
    earlier = before.topics if before is not None else {}
    rows = [
        (
            topic,
            _rate(before, now, ends_of(earlier.get(topic)), ends_of(statistics)),
            statistics.message_count,
            len(statistics.queues),
            statistics.last_stored,
        )
        for topic, statistics in now.topics.items()
    ]
    return ReportTable("topics", _TOPIC_COLUMNS, rows)


def groups_table(before: Sample | None, now: Sample) -> ReportTable:
    earlier = before.groups if before is not None else {}
    rows = [
        (
            group,
            len(each.members.connections),
            _rate(before, now, _taken_by(earlier.get(group)), _taken_by(each)),
            each.progress.lag,
            each.progress.time_lag,
            len({queue.queue.topic for queue in each.progress.queues}),
        )
        for group, each in now.groups.items()
    ]
    return ReportTable("groups", _GROUP_COLUMNS, rows)


def brokers_table(_before: Sample | None, now: Sample) -> ReportTable:
    rows = [
        (
            each.broker_name,
            each.role,
            each.address,
            each.version,
            each.put_rate,
            each.get_rate,
            each.disk_used_ratio,
            each.error,
        )
        for each in now.brokers
    ]
    return ReportTable("brokers", _BROKER_COLUMNS, rows)


def topic_details(now: Sample, topic: str) -> ReportTable:
    statistics = now.topics.get(topic)
    rows = [
        (*each.queue[1:], each.min_offset, each.max_offset, each.message_count, each.last_stored)
        for each in (statistics.queues if statistics is not None else ())
    ]
    columns = ("broker", "queue", "min_offset", "max_offset", "messages", "last_stored")
    return ReportTable(f"queues of {topic}", columns, rows)


def group_details(now: Sample, group: str) -> ReportTable:
    sample = now.groups.get(group)
    rows = [
        (*each.queue, each.consumer_offset, each.broker_offset, each.lag, each.time_lag)
        for each in (sample.progress.queues if sample is not None else ())
    ]
    columns = ("topic", "broker", "queue", "committed", "end", "lag", "behind_s")
    members = ", ".join(sample.members.client_ids) if sample is not None else ""
    return ReportTable(f"queues of {group}; members: {members or 'none'}", columns, rows)


def broker_details(now: Sample, broker_name: str) -> ReportTable:
    rows: list[tuple[Fact, ...]] = [
        (topic, sum(each.message_count for each in here), len(here))
        for topic, statistics in now.topics.items()
        if (here := [q for q in statistics.queues if q.queue.broker_name == broker_name])
    ]
    return ReportTable(f"topics of {broker_name}", ("topic", "messages", "queues"), rows)


def _rate(before: Sample | None, now: Sample, first: Offsets, last: Offsets) -> float | None:
    return None if before is None else rate_between(first, last, now.time_s - before.time_s)


def _taken_by(group: GroupSample | None) -> Offsets:
    return taken_by(None if group is None else group.progress)
