"""Connected clients: consumers with their subscriptions, and producers.

A client is in a group as long as its connection is open and it sends heartbeats. Nothing here
sends anything: the caller learns which groups changed and notifies their members. What a
connection is does not matter here; it only has to be hashable.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import islice
from typing import Final, Generic, NamedTuple, Protocol, TypeVar, final

import msgspec

from roquet.broker.errors import BadClientName, TooManyGroups
from roquet.net.errors import TableFull
from roquet.protocol.bodies.clients import ConsumerData, SubscriptionData
from roquet.protocol.command import Command

C = TypeVar("C", bound=Hashable)

SILENCE_S_MAX: Final = 120.0
GROUP_COUNT_MAX: Final = 1_000  # of one connection
# Connections times their groups; those of consumers and those of producers.
MEMBERSHIP_COUNT_MAX: Final = 200_000
# What the subscriptions of all groups may take, about.
SUBSCRIPTION_SIZE_MAX: Final = 64 << 20
# Of a client, or of a group of producers. Java's clients call themselves by address and process.
CLIENT_NAME_SIZE_MAX: Final = 512
_SUBSCRIPTION_COST: Final = 500
_TAG_COST: Final = 100


def check_client_id(client_id: str) -> None:
    """Raises BadClientName."""
    if len(client_id) > CLIENT_NAME_SIZE_MAX:
        raise BadClientName(client_id, CLIENT_NAME_SIZE_MAX)


def subscription_cost(subscriptions: Iterable[SubscriptionData]) -> int:
    """What they take of memory, in bytes, about."""
    cost = 0
    # A loop, because every heartbeat comes here: most subscribe to one or two topics without tags.
    for each in subscriptions:
        cost += _SUBSCRIPTION_COST + len(each.topic) + len(each.sub_string or "")
        if each.tags_set or each.code_set:
            cost += sum(map(len, each.tags_set))
            cost += _TAG_COST * (len(each.tags_set) + len(each.code_set))
    return cost


class ClientConnection(Hashable, Protocol):
    """What a broker needs of the connection of a client, whatever protocol that speaks."""

    peer: str

    @property
    def is_open(self) -> bool: ...

    @property
    def is_stalled(self) -> bool:
        """The client reads slower than the broker writes."""

    def send_oneway(self, command: Command) -> None:
        """Sends a request without expecting a response. Raises ConnectionLost."""

    async def call(self, command: Command, timeout_s: float) -> Command:
        """The response to a request. Raises NetError."""

    def close(self, reason: str) -> None: ...


class Client(msgspec.Struct, frozen=True):
    """One client on one connection, by its last heartbeat."""

    client_id: str
    address: str
    language: str | None
    version: int
    seen_ms: int  # for reports
    seen_s: float  # for the timeout: it must not end because the clock was set


class Silent(NamedTuple, Generic[C]):
    """What was removed without heartbeats: from these groups, on these connections."""

    groups: list[str]
    connections: list[C]


def ignore_leaving(_group: str, _client: Client) -> None:
    """The `on_left` of groups that need none."""


@final
class Consumers(Generic[C]):
    """`find(group)` is a bare look-up in a dict, because pulls do it."""

    __slots__ = ("_groups", "_roster", "_size_max", "find", "subscription_size")

    def __init__(
        self,
        membership_count_max: int = MEMBERSHIP_COUNT_MAX,
        subscription_size_max: int = SUBSCRIPTION_SIZE_MAX,
        *,
        on_left: Callable[[str, Client], None] = ignore_leaving,
    ) -> None:
        """`on_left` is given each member that leaves, with its group."""
        self._roster: _Roster[C] = _Roster(membership_count_max, on_left)
        self._size_max = subscription_size_max
        # Of all groups together.
        self.subscription_size = 0
        self._groups: dict[str, ConsumerGroup[C]] = {}
        self.find: Final[Callable[[str], ConsumerGroup[C] | None]] = self._groups.get

    def register(self, connection: C, client: Client, data: ConsumerData) -> bool:
        """Takes a heartbeat; whether the members of the group have to be notified.

        Raises TooManyGroups and TableFull; then nothing has changed.
        """
        group = self._groups.get(data.group_name)
        if group is not None and group.taken == data:
            # Most heartbeats repeat the last one of the group.
            return self._roster.put(data.group_name, connection, client)
        cost = subscription_cost(data.subscription_data_set)
        more = cost - (group.cost if group is not None else 0)
        if more > 0 and self.subscription_size + more > self._size_max:
            raise TableFull("bytes of subscriptions", self._size_max, "maxSubscriptionBytes")
        has_new_member = self._roster.put(data.group_name, connection, client)
        if group is None:
            members = self._roster.members(data.group_name)
            group = self._groups[data.group_name] = ConsumerGroup(data.group_name, members)
        has_new_topics = group.take(data)
        group.cost = cost
        self.subscription_size += more
        return has_new_member or has_new_topics

    def unregister(self, group: str, connection: C) -> bool:
        """Whether it was a member."""
        was_member = self._roster.remove(group, connection)
        self._drop_empty([group])
        return was_member

    def forget(self, connection: C) -> list[str]:
        """The connection is gone; the groups that it was in."""
        groups = self._roster.forget(connection)
        self._drop_empty(groups)
        return groups

    def forget_silent(self, now_s: float) -> Silent[C]:
        silent = self._roster.forget_silent(now_s)
        self._drop_empty(silent.groups)
        return silent

    def groups(self) -> list[str]:
        """Those that have members."""
        return list(self._groups)

    def may_read(self, group: str, topic: str) -> bool:
        """Whether a group that has an offset in a topic still reads it, as far as known."""
        members = self._groups.get(group)
        return members is None or not members.subscriptions or topic in members.subscriptions

    def groups_of(self, topic: str) -> list[str]:
        """The groups that read this topic now."""
        return [name for name, group in self._groups.items() if topic in group.subscriptions]

    def _drop_empty(self, groups: list[str]) -> None:
        for group in groups:
            if not self._roster.members(group):
                gone = self._groups.pop(group, None)
                self.subscription_size -= gone.cost if gone is not None else 0


@final
class ConsumerGroup(Generic[C]):
    """Members of a group are expected to be alike: the last heartbeat counts."""

    __slots__ = (
        "consume_from_where",
        "consume_type",
        "cost",
        "members",
        "message_model",
        "name",
        "subscriptions",
        "taken",
    )

    def __init__(self, name: str, members: Mapping[C, Client]) -> None:
        self.name = name
        self.members = members
        # What its subscriptions take.
        self.cost = 0
        self.subscriptions: dict[str, SubscriptionData] = {}
        self.consume_type: str | None = None
        self.message_model: str | None = None
        self.consume_from_where: str | None = None
        # The last heartbeat: to take the same again would change nothing.
        self.taken: ConsumerData | None = None

    @property
    def client_ids(self) -> list[str]:
        """Each once: a client that reconnects may still have its old connection.

        Consumers share the queues by this list; a second entry would get queues that no
        consumer reads.
        """
        return list(dict.fromkeys(client.client_id for client in self.members.values()))

    def connection_of(self, client_id: str) -> C | None:
        """The newest, if there are several."""
        found = None
        for connection, client in self.members.items():
            if client.client_id == client_id:
                found = connection
        return found

    def take(self, data: ConsumerData) -> bool:
        """Whether topics came or went. A newer subscription to a known topic is no change."""
        self.taken = data
        self.consume_type = data.consume_type
        self.message_model = data.message_model
        self.consume_from_where = data.consume_from_where
        known = self.subscriptions
        # A topic that this heartbeat does not name is no longer read by the group.
        self.subscriptions = {}
        for new in data.subscription_data_set:
            old = known.get(new.topic)
            if old is not None and old.sub_version >= new.sub_version:
                self.subscriptions[new.topic] = old
            else:
                self.subscriptions[new.topic] = new
        return self.subscriptions.keys() != known.keys()


@final
class Producers(Generic[C]):
    __slots__ = ("_roster", "_turn")

    def __init__(self, membership_count_max: int = MEMBERSHIP_COUNT_MAX) -> None:
        self._roster: _Roster[C] = _Roster(membership_count_max)
        self._turn = 0

    def register(self, group: str, connection: C, client: Client) -> None:
        """Takes a heartbeat. Raises TooManyGroups, TableFull and BadClientName."""
        check_client_id(group)
        self._roster.put(group, connection, client)

    def unregister(self, group: str, connection: C) -> None:
        self._roster.remove(group, connection)

    def forget(self, connection: C) -> None:
        """The connection is gone."""
        self._roster.forget(connection)

    def forget_silent(self, now_s: float) -> Silent[C]:
        return self._roster.forget_silent(now_s)

    def groups(self) -> list[str]:
        return self._roster.groups()

    def members(self, group: str) -> Mapping[C, Client]:
        return self._roster.members(group)

    def connection_of(self, client_id: str) -> C | None:
        """The connection of the client's last heartbeat."""
        return self._roster.connection_of(client_id)

    def next_of(self, group: str) -> C | None:
        """Another member of the group each time, as long as there are others."""
        members = self._roster.members(group)
        if not members:
            return None
        self._turn += 1
        return next(islice(members, self._turn % len(members), None))


@final
class _Roster(Generic[C]):
    """Which connections are in which groups, both ways, and where each client is."""

    __slots__ = ("_connection_of", "_count_max", "_groups_of", "_members", "_on_left", "count")

    def __init__(
        self, count_max: int, on_left: Callable[[str, Client], None] = ignore_leaving
    ) -> None:
        self._count_max = count_max
        self._on_left = on_left
        # Connections times their groups.
        self.count = 0
        self._members: dict[str, dict[C, Client]] = {}
        self._groups_of: dict[C, set[str]] = {}
        self._connection_of: dict[str, C] = {}

    def groups(self) -> list[str]:
        return list(self._members)

    def members(self, group: str) -> Mapping[C, Client]:
        return self._members.get(group, {})

    def connection_of(self, client_id: str) -> C | None:
        return self._connection_of.get(client_id)

    def put(self, group: str, connection: C, client: Client) -> bool:
        """Whether the member is new."""
        members = self._members.get(group)
        old = members.get(connection) if members is not None else None
        if members is None or old is None:
            self._check_room(connection)
            self._groups_of.setdefault(connection, set()).add(group)
            members = self._members.setdefault(group, {})
            self.count += 1
        members[connection] = client
        self._connection_of[client.client_id] = connection
        if old is not None and old.client_id == client.client_id:
            return False
        if old is not None:
            self._drop_id(old.client_id, connection)
        return True

    def _check_room(self, connection: C) -> None:
        """For one more group."""
        groups = self._groups_of.get(connection, ())
        if len(groups) >= GROUP_COUNT_MAX:
            raise TooManyGroups(GROUP_COUNT_MAX)
        if self.count >= self._count_max:
            raise TableFull("memberships of clients in groups", self._count_max, "maxMemberships")

    def remove(self, group: str, connection: C) -> bool:
        """Whether it was there."""
        members = self._members.get(group, {})
        client = members.pop(connection, None)
        if client is None:
            return False
        self.count -= 1
        if not members:
            del self._members[group]
        groups = self._groups_of[connection]
        groups.remove(group)
        if not groups:
            del self._groups_of[connection]
        self._drop_id(client.client_id, connection)
        self._on_left(group, client)
        return True

    def forget(self, connection: C) -> list[str]:
        groups = list(self._groups_of.get(connection, ()))
        for group in groups:
            self.remove(group, connection)
        return groups

    def forget_silent(self, now_s: float) -> Silent[C]:
        silent = [
            (group, connection)
            for group, members in self._members.items()
            for connection, client in members.items()
            if now_s - client.seen_s > SILENCE_S_MAX
        ]
        for group, connection in silent:
            self.remove(group, connection)
        groups = dict.fromkeys(group for group, _ in silent)
        return Silent(list(groups), list(dict.fromkeys(connection for _, connection in silent)))

    def _drop_id(self, client_id: str, connection: C) -> None:
        """Forgets where a client is, unless it is there in another group or elsewhere by now."""
        # It may be gone already: a client can have had several connections.
        if self._connection_of.get(client_id) != connection:
            return
        groups = self._groups_of.get(connection, ())
        if not any(self._members[group][connection].client_id == client_id for group in groups):
            del self._connection_of[client_id]
