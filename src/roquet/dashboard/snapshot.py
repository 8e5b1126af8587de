"""The cluster as one poll has found it.

What one request to each broker answers is asked for with every poll. Statistics of a topic, its age
and its size, and time lag and members of a group, take requests of their own: they are asked for in
turn, a part of them with every poll, so that the cost of a poll does not grow with the cluster.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeVar

from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.cluster import BrokerInfo
from roquet.client.admin.groups import GroupMembers, GroupSettings
from roquet.client.admin.missing import LostBroker, MissingBroker
from roquet.client.admin.progress import GroupProgress
from roquet.client.admin.rates import ends_of, rate_between, taken_by
from roquet.client.admin.topics import QueueStatistics, TopicSettings, TopicStatistics
from roquet.client.admin.waiting import WaitingMessages
from roquet.client.arguments import utc
from roquet.client.errors import GroupNotFound, RequestRefused, TopicNotFound
from roquet.clock import SystemClock

T = TypeVar("T")

# Asked for with each poll, at most, and at the same time.
TOPICS_AT_A_TIME: Final = 200
EXTENTS_AT_A_TIME: Final = 20
GROUPS_AT_A_TIME: Final = 40
_AT_ONCE: Final = 8
_SIZES_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class TopicSample:
    time_s: float
    statistics: TopicStatistics
    # Messages a second since the sample before; None if there was none.
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class TopicExtent:
    """What changes slowly, and is asked for rarely."""

    time_s: float
    # When the oldest message was stored; None without messages.
    oldest: datetime | None
    # Of a record in the log, by a sample of them: brokers do not report the size of a topic.
    mean_size: float | None


@dataclass(frozen=True, slots=True)
class GroupDetails:
    """What has to be asked for group by group."""

    time_s: float
    progress: GroupProgress
    members: GroupMembers
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    taken: datetime
    # On the clock of the event loop.
    time_s: float
    name_servers: Mapping[str, str | None] = field(default_factory=dict)
    brokers: tuple[BrokerInfo, ...] = ()
    # None if name servers do not remember them.
    lost: tuple[LostBroker, ...] | None = ()
    topics: Mapping[str, Mapping[str, TopicSettings]] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, GroupSettings]] = field(default_factory=dict)
    # Of groups that have committed an offset; a queue without one counts from 0.
    progress: Mapping[str, GroupProgress] = field(default_factory=dict)
    waiting: WaitingMessages = field(default_factory=WaitingMessages)
    dead: Mapping[str, TopicStatistics] = field(default_factory=dict)
    topic_samples: Mapping[str, TopicSample] = field(default_factory=dict)
    topic_extents: Mapping[str, TopicExtent] = field(default_factory=dict)
    group_details: Mapping[str, GroupDetails] = field(default_factory=dict)
    # Brokers that it is without.
    missing: tuple[MissingBroker, ...] = ()

    @property
    def put_rate(self) -> float:
        return sum(each.put_rate or 0.0 for each in self.brokers if each.is_master)

    @property
    def get_rate(self) -> float:
        return sum(each.get_rate or 0.0 for each in self.brokers)

    @property
    def lag(self) -> int:
        """Of all groups, as far as it is known."""
        return sum(self.lag_of(group) or 0 for group in self.groups)

    def progress_of(self, group: str) -> GroupProgress | None:
        """From its details, which know where a group without committed offsets would start."""
        details = self.group_details.get(group)
        return self.progress.get(group) if details is None else details.progress

    def lag_of(self, group: str) -> int | None:
        progress = self.progress_of(group)
        return None if progress is None else progress.lag

    def oldest_of(self, topic: str) -> datetime | None:
        extent = self.topic_extents.get(topic)
        return None if extent is None else extent.oldest

    def size_of(self, topic: str) -> int | None:
        """About the bytes that its messages take in the logs; None if it is not known."""
        extent, sample = self.topic_extents.get(topic), self.topic_samples.get(topic)
        if extent is None or sample is None:
            return None
        count = sample.statistics.message_count
        if not count:
            return 0
        return None if extent.mean_size is None else round(extent.mean_size * count)

    def groups_of(self, topic: str) -> list[str]:
        """The groups that read a topic, or have read it."""
        return [
            group
            for group in self.groups
            if (progress := self.progress_of(group)) is not None
            and any(each.queue.topic == topic for each in progress.queues)
        ]


async def take_snapshot(admin: AsyncAdmin, before: Snapshot | None) -> Snapshot:
    """Raises ClientError if no name server answers.

    `admin` is a `partial` one that has not been asked before.
    """
    name_servers = await admin.name_servers()
    brokers, lost = await asyncio.gather(admin.brokers(), admin.lost_brokers())
    topics, names, settings = await asyncio.gather(
        admin.all_topic_settings(), admin.groups(), admin.all_group_settings()
    )
    progress, waiting, dead = await asyncio.gather(
        admin.all_progress(), admin.waiting_messages(), admin.dead_letter_counts()
    )
    samples = await _topic_samples(admin, list(topics), before)
    time_s = asyncio.get_running_loop().time()
    return Snapshot(
        utc(SystemClock().now_ms()),
        time_s,
        name_servers,
        tuple(brokers),
        None if lost is None else tuple(lost),
        topics,
        {name: settings.get(name, {}) for name in names},
        {each.group: each for each in progress if each.group in names},
        waiting,
        dead,
        samples,
        await _topic_extents(admin, samples, before),
        await _group_details(admin, names, before),
        admin.missing,
    )


async def _topic_samples(
    admin: AsyncAdmin, topics: Sequence[str], before: Snapshot | None
) -> dict[str, TopicSample]:
    known = {} if before is None else before.topic_samples

    async def sample(topic: str) -> TopicSample:
        statistics = await admin.topic_statistics(topic)
        time_s = asyncio.get_running_loop().time()
        old = known.get(topic)
        rate = None
        if old is not None:
            rate = rate_between(ends_of(old.statistics), ends_of(statistics), time_s - old.time_s)
        return TopicSample(time_s, statistics, rate)

    turn = next_in_turn(topics, {name: each.time_s for name, each in known.items()})
    fresh = await _each(turn[:TOPICS_AT_A_TIME], sample)
    kept = {name: each for name, each in known.items() if name in set(topics)}
    return kept | fresh


async def _topic_extents(
    admin: AsyncAdmin, samples: Mapping[str, TopicSample], before: Snapshot | None
) -> dict[str, TopicExtent]:
    known = {} if before is None else before.topic_extents

    async def extent(topic: str) -> TopicExtent:
        queues = samples[topic].statistics.queues
        oldest = mean_size = None
        if any(each.message_count for each in queues):
            oldest = min((await admin.first_stored(topic)).values(), default=None)
            mean_size = await _mean_size(admin, max(queues, key=lambda each: each.message_count))
        return TopicExtent(asyncio.get_running_loop().time(), oldest, mean_size)

    turn = next_in_turn(samples, {name: each.time_s for name, each in known.items()})
    fresh = await _each(turn[:EXTENTS_AT_A_TIME], extent)
    return {name: each for name, each in known.items() if name in samples} | fresh


async def _mean_size(admin: AsyncAdmin, fullest: QueueStatistics) -> float | None:
    """Of the oldest and the newest records of a queue; entries have sizes, and no bodies."""
    starts = {fullest.min_offset, max(fullest.min_offset, fullest.max_offset - _SIZES_AT_ONCE)}
    found = await asyncio.gather(
        *(admin.queue_entries(fullest.queue, each, count_max=_SIZES_AT_ONCE) for each in starts)
    )
    sizes = [entry.size for part in found for entry in part.entries]
    return sum(sizes) / len(sizes) if sizes else None


async def _group_details(
    admin: AsyncAdmin, groups: Sequence[str], before: Snapshot | None
) -> dict[str, GroupDetails]:
    known = {} if before is None else before.group_details

    async def details(group: str) -> GroupDetails:
        progress, members = await admin.progress(group), await admin.members(group)
        time_s = asyncio.get_running_loop().time()
        old = known.get(group)
        rate = None
        if old is not None:
            rate = rate_between(taken_by(old.progress), taken_by(progress), time_s - old.time_s)
        return GroupDetails(time_s, progress, members, rate)

    turn = next_in_turn(groups, {name: each.time_s for name, each in known.items()})
    fresh = await _each(turn[:GROUPS_AT_A_TIME], details)
    kept = {name: each for name, each in known.items() if name in set(groups)}
    return kept | fresh


def next_in_turn(names: Iterable[str], asked_s: Mapping[str, float]) -> list[str]:
    """Those that were never asked for come first, then those whose turn is longest ago."""
    return sorted(names, key=lambda name: (asked_s.get(name, float("-inf")), name))


async def _each(names: Sequence[str], ask: Callable[[str], Awaitable[T]]) -> dict[str, T]:
    """Without those that were deleted meanwhile, or that no broker answers for."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(name: str) -> T | None:
        async with gate:
            try:
                return await ask(name)
            except (TopicNotFound, GroupNotFound, RequestRefused):
                return None

    answers = await asyncio.gather(*map(one, names))
    return {name: answer for name, answer in zip(names, answers, strict=True) if answer is not None}
