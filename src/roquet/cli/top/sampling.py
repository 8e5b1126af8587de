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
from roquet.client.errors import GroupNotFound, TopicNotFound

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


async def take_sample(admin: AsyncAdmin) -> Sample:
    """What is deleted meanwhile is not in it. Raises ClientError."""
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

    brokers, topics, groups = await asyncio.gather(admin.brokers(), admin.topics(), admin.groups())
    return Sample(
        asyncio.get_running_loop().time(),
        tuple(brokers),
        await each(topics, admin.topic_statistics),
        await each(groups, group),
    )
