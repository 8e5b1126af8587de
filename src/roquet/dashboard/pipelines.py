"""What reads the cluster without members: queries that commit offsets, and lakes.

Brokers have the committed offsets of a Spark query and nothing else of it; a batch is seen when
they move. A lake has a log of its own, which is read where it is; the starter of the dashboard
passes the reader, because only the pipeline knows the format.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, NamedTuple, Protocol, final

from roquet.client.admin.progress import GroupProgress
from roquet.client.admin.rates import Offsets, taken_by
from roquet.client.admin.topics import TopicStatistics
from roquet.client.arguments import utc
from roquet.client.queue_ref import QueueRef
from roquet.clock import SystemClock
from roquet.dashboard.snapshot import Snapshot
from roquet.errors import RoquetError
from roquet.protocol.names import RETRY_PREFIX

# The log of a lake is a few small files since the last time.
LAKE_READ_S: Final = 5.0


class Batch(NamedTuple):
    """When the offsets of a group were seen to move, and by how many messages."""

    seen: datetime
    rows: int


def commits_without_members(snapshot: Snapshot) -> dict[str, GroupProgress]:
    """Groups that have committed offsets and have no members, as those of Spark queries do.

    Only listeners have retries and dead letters, so a group that has some is a stopped consumer.
    Another one that is stopped cannot be distinguished from a query.
    """
    found = {}
    for group in snapshot.groups:
        details, progress = snapshot.group_details.get(group), snapshot.progress.get(group)
        if details is None or details.members.connections or progress is None:
            continue
        if group in snapshot.dead or group in snapshot.waiting.retries:
            continue
        topics = {each.queue.topic for each in progress.queues}
        if topics and not any(topic.startswith(RETRY_PREFIX) for topic in topics):
            found[group] = snapshot.progress_of(group) or progress
    return found


@final
class BatchWatch:
    """The last batch of each group that commits without members, since the dashboard started."""

    def __init__(self) -> None:
        self._offsets: Mapping[str, Offsets] = {}
        self.batches: dict[str, Batch] = {}

    def observe(self, snapshot: Snapshot) -> None:
        offsets = {
            group: taken_by(snapshot.progress[group]) for group in commits_without_members(snapshot)
        }
        for group, now in offsets.items():
            before = self._offsets.get(group, now)
            moved = sum(now[queue] - before[queue] for queue in now.keys() & before.keys())
            if moved > 0:
                self.batches[group] = Batch(snapshot.taken, moved)
        self._offsets = offsets
        self.batches = {group: each for group, each in self.batches.items() if group in offsets}


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeReport:
    """A lake as its log has it."""

    rows: int = 0
    files: int = 0
    size: int = 0
    # Messages that could not be decoded.
    quarantined: int = 0
    # The last entry that added messages; None if it is not known.
    last_batch: datetime | None = None
    last_rows: int = 0
    last_files: int = 0
    # Up to but not including which offset it has each queue.
    ends: Mapping[QueueRef, int] = field(default_factory=dict)

    @property
    def topics(self) -> list[str]:
        return sorted({queue.topic for queue in self.ends})


class LakeReader(Protocol):
    @property
    def path(self) -> str: ...

    def read(self) -> LakeReport:
        """Blocks. Raises RoquetError and OSError."""
        ...


@dataclass(frozen=True, slots=True)
class LakeState:
    """What was read last, and why no more could be; each may be None."""

    path: str
    report: LakeReport | None = None
    problem: str | None = None
    taken: datetime | None = None


@final
class LakeWatch:
    """The lakes that the dashboard was given, in their order."""

    def __init__(self, readers: Sequence[LakeReader]) -> None:
        self._readers = readers
        self.states = [LakeState(each.path) for each in readers]

    async def read_forever(self) -> None:
        while True:
            await self.read()
            await asyncio.sleep(LAKE_READ_S)

    async def read(self) -> None:
        """A lake that cannot be read keeps what was known of it."""
        for index, reader in enumerate(self._readers):
            try:
                report = await asyncio.to_thread(reader.read)
            except (RoquetError, OSError) as error:
                self.states[index] = replace(self.states[index], problem=str(error))
            else:
                taken = utc(SystemClock().now_ms())
                self.states[index] = LakeState(reader.path, report, None, taken)


class LakeQueue(NamedTuple):
    """A queue of a topic that a lake has; without `end`, nothing of it was ingested yet."""

    queue: QueueRef
    end: int | None
    broker_offset: int
    lag: int


def lake_queues(
    report: LakeReport, statistics: Mapping[str, TopicStatistics | None]
) -> list[LakeQueue] | None:
    """With what brokers have beyond the lake; None if those of one topic are not known."""
    rows = []
    for topic in report.topics:
        found = statistics.get(topic)
        if found is None:
            return None
        for each in found.queues:
            end = report.ends.get(each.queue)
            # What has expired meanwhile cannot be ingested any more.
            lag = max(0, each.max_offset - max(end or 0, each.min_offset))
            rows.append(LakeQueue(each.queue, end, each.max_offset, lag))
    return rows
