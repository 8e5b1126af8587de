"""Collects what brokers know about one message, for `deliveries` to decide what became of it.

Its copies have its id: in the delay topic while a retry waits for its time, in the retry topic of
a group once it is due, and in the dead letters. Any broker may have them.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final, NamedTuple, TypeVar, final

from roquet.client.admin.cluster import broker_config
from roquet.client.admin.dead_letters import LetterPlace, resent_of
from roquet.client.admin.deliveries import (
    Deliveries,
    DeliveryFacts,
    RetryCopy,
    delay_levels,
    delivery_of,
    is_excluded,
    newest_retry,
)
from roquet.client.admin.groups import members_at
from roquet.client.admin.messages import query_at
from roquet.client.admin.missing import MissingBrokers
from roquet.client.admin.progress import start_offset_at
from roquet.client.admin.servers import AdminServers, Master
from roquet.client.admin.topics import groups_at
from roquet.client.queue_ref import wire_queue
from roquet.client.received import ReceivedMessage
from roquet.protocol.bodies.clients import ConsumerConnections, MessageModel
from roquet.protocol.headers.messages import QueryMessageHeader
from roquet.protocol.messages.message import Property
from roquet.protocol.names import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC

T = TypeVar("T")

# As many as it can be retried, by several groups.
_COPY_COUNT_MAX: Final = 64
_LAST_MS: Final = 2**63 - 1


async def deliveries_of(servers: AdminServers, message: ReceivedMessage) -> Deliveries:
    """An answer in part, always: it names the brokers it is without."""
    servers = servers.in_part(servers.missing or MissingBrokers())
    search = _Search(servers, message, await servers.replicas())
    topic = message.record.topic
    found = await search.each(lambda broker: groups_at(servers, topic, broker))
    groups = sorted({group for part in found.values() for group in part})
    about = _AboutAll(
        await search.each(lambda broker: servers.brokers.kept_offsets(broker.address)),
        await search.each(search.delayed_copies),
    )
    facts = {group: await search.facts(group, about) for group in groups}
    return Deliveries(
        tuple(delivery_of(servers.user_name(group), each) for group, each in facts.items()),
        search.not_asked(),
    )


class _AboutAll(NamedTuple):
    """What each broker reports about all groups."""

    # By "topic@group" and queue id.
    offsets: Mapping[str, Mapping[str, Mapping[int, int]]]
    # Copies in the delay topic, with their delay.
    delayed: Mapping[str, list[tuple[ReceivedMessage, timedelta]]]


class _Progress(NamedTuple):
    """Of a group in the queue of the message; without a committed offset, where it would start."""

    committed: int | None
    members: ConsumerConnections | None
    start: int | None


@final
class _Search:
    """For one message."""

    def __init__(
        self, servers: AdminServers, message: ReceivedMessage, brokers: Sequence[Master]
    ) -> None:
        self._servers = servers
        self._message = message
        self._brokers = brokers

    async def each(self, ask: Callable[[Master], Awaitable[T]]) -> dict[str, T]:
        """The answers by broker name, of those that answered."""
        return await self._servers.ask_each(self._brokers, ask)

    def not_asked(self) -> dict[str, str]:
        """Why brokers are missing, by name."""
        missing = {each.broker_name: each.reason for each in self._servers.missing or ()}
        name = self._message.queue.broker_name
        if all(broker.broker_name != name for broker in self._brokers):
            missing[name] = "name servers do not list it"
        return missing

    async def delayed_copies(self, master: Master) -> list[tuple[ReceivedMessage, timedelta]]:
        copies = await self._copies(master, SCHEDULE_TOPIC)
        if not copies:
            return []
        settings = await broker_config(self._servers, master.address)
        levels = delay_levels(settings.get("messageDelayLevel", ""))
        return [
            (each, levels[each.queue.queue_id])
            for each in copies
            if each.queue.queue_id < len(levels)
        ]

    async def facts(self, group: str, about: _AboutAll) -> DeliveryFacts:
        message = self._message
        retries = await self.each(lambda master: self._copies(master, RETRY_PREFIX + group))
        dead = await self.each(lambda master: self._copies(master, DLQ_PREFIX + group))
        copies = [
            *self._delayed_of(group, about.delayed),
            *self._delivered_of(group, retries, about.offsets),
        ]
        letters = [each for part in dead.values() for each in part]
        resent = await resent_of(self._servers, group) if letters else {}
        tries = [each.try_count for dead in letters if (each := dead.dlq_reason) is not None]
        progress = await self._progress(group, about.offsets)
        members = None if progress is None else progress.members
        return DeliveryFacts(
            message.queue_offset,
            None if progress is None else progress.committed,
            None if progress is None else progress.start,
            is_excluded=members is not None
            and is_excluded(members.subscription_table.get(message.record.topic), message),
            is_broadcast=members is not None and members.message_model == MessageModel.BROADCASTING,
            retry=newest_retry(copies),
            dead_tries=max(tries, default=None),
            resent_as=next(
                (
                    resent[place].message_id
                    for dead in letters
                    if (place := LetterPlace.of(dead)) in resent
                ),
                None,
            ),
            not_asked=tuple(sorted(self.not_asked())),
            is_its_broker_asked=progress is not None,
        )

    async def _progress(
        self, group: str, offsets: Mapping[str, Mapping[str, Mapping[int, int]]]
    ) -> _Progress | None:
        """None if the broker of the message does not answer."""
        servers, queue = self._servers, wire_queue(self._message.queue)
        name = queue.broker_name

        async def progress(broker: Master) -> _Progress:
            members = await members_at(servers, group, broker)
            committed = offsets[name].get(f"{queue.topic}@{group}", {}).get(queue.queue_id)
            if committed is not None:
                return _Progress(committed, members, None)
            # All that matters is which side of the start the message is on.
            end = self._message.queue_offset + 1
            start = await start_offset_at(servers, group, broker, queue, end, members)
            return _Progress(None, members, start)

        its_broker = [each for each in self._brokers if each.broker_name == name]
        if name not in offsets:
            return None
        return (await servers.ask_each(its_broker, progress)).get(name)

    def _delayed_of(
        self, group: str, delayed: Mapping[str, list[tuple[ReceivedMessage, timedelta]]]
    ) -> Iterable[RetryCopy]:
        topic = RETRY_PREFIX + group
        return (
            RetryCopy(copy.retry_count, copy.stored + delay)
            for part in delayed.values()
            for copy, delay in part
            if copy.properties.get(Property.REAL_TOPIC) == topic
        )

    def _delivered_of(
        self,
        group: str,
        retries: Mapping[str, list[ReceivedMessage]],
        offsets: Mapping[str, Mapping[str, Mapping[int, int]]],
    ) -> Iterable[RetryCopy]:
        key = f"{RETRY_PREFIX}{group}@{group}"
        for name, copies in retries.items():
            committed = offsets.get(name, {}).get(key, {})
            for copy in copies:
                is_taken = copy.queue_offset < committed.get(copy.queue.queue_id, 0)
                yield RetryCopy(copy.retry_count, None, is_taken)

    async def _copies(self, master: Master, topic: str) -> list[ReceivedMessage]:
        """Those that were made of the message after it was delivered."""
        message = self._message
        key = message.properties.get(Property.UNIQUE_KEY) or next(iter(message.keys), None)
        if key is None:
            return []  # No broker can find its copies.
        header = QueryMessageHeader(
            topic=topic,
            key=key,
            max_num=_COPY_COUNT_MAX,
            begin_timestamp=message.record.store_timestamp,
            end_timestamp=_LAST_MS,
        )
        found = await query_at(self._servers, header, master)
        return [each for each in found if _is_copy(each, message)]


def _is_copy(found: ReceivedMessage, message: ReceivedMessage) -> bool:
    origin = found.properties.get(Property.ORIGIN_MESSAGE_ID)
    is_same = found.message_id == message.message_id or origin == message.offset_id
    return is_same and found.retry_count > message.retry_count
