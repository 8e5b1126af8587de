"""Moving a group to other offsets: planned first, confirmed by an operator, then applied.

    group is ...       broker is 5.x or Roquet        broker is 4.9
    not connected      its offsets are committed for it
    connected          the broker moves it            its members get a time, and move

Members would soon overwrite what was committed for them with their own offsets, so a broker of 4.9
cannot move a connected group to an offset, only to a time, the first or the last message.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Final

from roquet.client.admin.groups import members_at
from roquet.client.admin.servers import AdminServers, Master, ask_all
from roquet.client.arguments import bad, check_offsets, timestamp_ms
from roquet.client.errors import BadArgument, MembersConnected, TopicNotFound
from roquet.client.group.start_offset import StartFrom
from roquet.client.queue_ref import QueueRef
from roquet.protocol.codes import VERSION_5_0_0, RequestCode
from roquet.protocol.command import OUR_LANGUAGE
from roquet.protocol.fields import NoFields
from roquet.protocol.headers.groups import ResetOffsetHeader

# A moment, the first or last message, an offset, or one for each queue.
ResetTarget = datetime | StartFrom | int | Mapping[QueueRef, int]

_LAST_TIME: Final = -1
_FIRST_TIME: Final = 0


@dataclass(frozen=True, slots=True)
class QueueMove:
    """The effect of a reset on one queue."""

    queue: QueueRef
    # None if the group never committed here.
    current: int | None
    target: int
    min_offset: int
    max_offset: int

    @property
    def distance(self) -> int | None:
        """Messages that are skipped; less than 0 if they are read again."""
        return None if self.current is None else self.target - self.current


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """The effect of a reset. Nothing changes before `apply_reset`."""

    group: str
    topic: str
    to: ResetTarget
    moves: tuple[QueueMove, ...]
    # The client ids that are connected now.
    members: tuple[str, ...]
    # Whether it moves all queues of the topic.
    is_whole: bool

    @property
    def skipped_count(self) -> int:
        return sum(max(0, each.distance or 0) for each in self.moves)

    @property
    def repeated_count(self) -> int:
        return sum(max(0, -(each.distance or 0)) for each in self.moves)


class _ResetWay(Enum):
    COMMIT = auto()  # no member is connected that would overwrite it
    AT_BROKER = auto()
    AT_MEMBERS = auto()


async def plan_reset(
    servers: AdminServers,
    group: str,
    topic: str,
    to: ResetTarget,
    queues: Sequence[QueueRef] | None,
) -> ResetPlan:
    if to is StartFrom.AUTO or not isinstance(to, datetime | StartFrom | int | Mapping):
        expected = "a datetime, an offset, offsets by queue, StartFrom.FIRST or StartFrom.LAST"
        raise bad("to", expected, to)
    if isinstance(to, Mapping):
        check_offsets("to", to)
        queues = list(to) if queues is None else queues
        if missing := set(queues).difference(to):
            raise BadArgument(f"`to` has no offset for {min(missing)}", "to")
    route = await servers.route(topic)
    wanted = route.readable
    if queues is not None:
        wire_queues = {queue._replace(topic=servers.wire_name(queue.topic)) for queue in queues}
        if strangers := wire_queues.difference(route.readable):
            raise BadArgument(f"{min(strangers)} is not a queue of topic {topic!r}", "queues")
        wanted = tuple(queue for queue in route.readable if queue in wire_queues)
    masters = [Master(*each) for each in sorted(route.masters.items())]
    if without_master := {queue.broker_name for queue in wanted}.difference(route.masters):
        reason = f"brokers without a master, which a reset needs: {sorted(without_master)}"
        raise TopicNotFound(topic, reason)

    async def moves(master: Master) -> list[QueueMove]:
        offsets = await servers.brokers.kept_offsets(master.address)
        kept = offsets.get(f"{topic}@{group}", {})
        here = [queue for queue in wanted if queue.broker_name == master.broker_name]
        return [await _move(servers, queue, kept.get(queue.queue_id), to) for queue in here]

    parts = await ask_all(masters, moves)
    found = await ask_all(masters, lambda master: members_at(servers, group, master))
    members = {each.client_id for part in found.values() if part for each in part.connection_set}
    return ResetPlan(
        servers.user_name(group),
        servers.user_name(topic),
        to,
        tuple(sorted((move for part in parts.values() for move in part), key=lambda m: m.queue)),
        tuple(sorted(members)),
        is_whole=queues is None,
    )


async def apply_reset(servers: AdminServers, plan: ResetPlan) -> None:
    """Raises MembersConnected before anything is changed."""
    group, topic = servers.wire_name(plan.group), servers.wire_name(plan.topic)
    names = {move.queue.broker_name for move in plan.moves}
    masters = [each for each in await servers.masters_of(topic) if each.broker_name in names]
    ways = await ask_all(masters, lambda master: _way(servers, group, master))
    is_time = not isinstance(plan.to, int | Mapping)
    if _ResetWay.AT_MEMBERS in ways.values() and not (plan.is_whole and is_time):
        raise MembersConnected(plan.group)

    async def move(master: Master) -> None:
        moves = [each for each in plan.moves if each.queue.broker_name == master.broker_name]
        match ways[master.broker_name]:
            case _ResetWay.COMMIT:
                await _commit(servers, group, topic, moves)
            case _ResetWay.AT_BROKER:
                for each in moves:
                    header = _reset_header(group, topic, _LAST_TIME)
                    header.queue_id, header.offset = each.queue.queue_id, each.target
                    await _reset(servers, master, header)
            case _ResetWay.AT_MEMBERS:
                # The broker refuses when one of the queues has no offset yet.
                fresh = [each for each in moves if each.current is None]
                await _commit(servers, group, topic, fresh)
                await _reset(servers, master, _reset_header(group, topic, _time_of(plan.to)))

    await ask_all(masters, move)


async def _move(
    servers: AdminServers, queue: QueueRef, current: int | None, to: ResetTarget
) -> QueueMove:
    brokers = servers.brokers
    min_offset, max_offset = await brokers.min_offset(queue), await brokers.max_offset(queue)
    user_queue = queue._replace(topic=servers.user_name(queue.topic))
    match to:
        case StartFrom.FIRST:
            target = min_offset
        case StartFrom.LAST:
            target = max_offset
        case int():
            target = to
        case Mapping():
            target = to[user_queue]
        case _:
            target = await brokers.offset_at(queue, _time_of(to))
    # Beyond the ends there is nothing to read.
    target = min(max(target, min_offset), max_offset)
    return QueueMove(user_queue, current, target, min_offset, max_offset)


async def _way(servers: AdminServers, group: str, master: Master) -> _ResetWay:
    if await members_at(servers, group, master) is None:
        return _ResetWay.COMMIT
    # Every reply names the version of its broker, and this request always works: Apache's
    # statistics, for example, are missing in the first seconds of a broker.
    reply = await servers.brokers.ask(master.address, RequestCode.GET_BROKER_CONFIG, NoFields())
    is_able = reply.version >= VERSION_5_0_0 or reply.language == OUR_LANGUAGE
    return _ResetWay.AT_BROKER if is_able else _ResetWay.AT_MEMBERS


async def _commit(
    servers: AdminServers, group: str, topic: str, moves: Sequence[QueueMove]
) -> None:
    for each in moves:
        await servers.brokers.commit(group, each.queue._replace(topic=topic), each.target)


async def _reset(servers: AdminServers, master: Master, header: ResetOffsetHeader) -> None:
    await servers.brokers.ask(master.address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)


def _reset_header(group: str, topic: str, timestamp: int) -> ResetOffsetHeader:
    return ResetOffsetHeader(topic=topic, group=group, timestamp=timestamp, is_force=True)


def _time_of(to: ResetTarget) -> int:
    assert not isinstance(to, int | Mapping)
    if isinstance(to, datetime):
        return timestamp_ms(to, "to")
    return _FIRST_TIME if to is StartFrom.FIRST else _LAST_TIME
