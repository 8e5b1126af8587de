"""One look at the cluster: what rates are made of, two of them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.cluster import BrokerInfo
from roquet.client.admin.groups import GroupMembers
from roquet.client.admin.progress import GroupProgress
from roquet.client.admin.topics import TopicStatistics
from roquet.client.errors import ClientError, GroupNotFound, TopicNotFound

T = TypeVar("T")

# Questions at the same time: a look must not be what a cluster is busy with.
_AT_ONCE: Final = 8


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
    # Why topics and groups are not there.
    problem: str | None = None


async def take_sample(admin: AsyncAdmin) -> Sample:
    """Of a cluster with a broker that is gone it is the brokers. Raises ClientError without those.

    What is deleted meanwhile is not in it.
    """
    brokers = tuple(await admin.brokers())
    time_s = asyncio.get_running_loop().time()
    try:
        topics, groups = await _topics_and_groups(admin)
    except ClientError as error:
        return Sample(time_s, brokers, {}, {}, str(error))
    return Sample(time_s, brokers, topics, groups)


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
