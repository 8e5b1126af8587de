"""Which queues of a topic a member of a group reads: six strategies, all of them pure.

Every member decides for itself, so all must use the same strategy with the same parameters, and
give it the same queues and client ids, sorted. Eight queues and three members:

    average          a0 a1 a2   a3 b0 b1   b2 b3       neighbours stay together
    circle           a0 a3 b2   a1 b0 b3   a2 b1       round robin
    ConsistentHash   few queues move when a member joins or leaves
    FixedQueues      each member is given its queues
    MachineRoom      only queues of the named rooms, which are part of the brokers' names
    MachineRoomNearby  queues stay in their room as long as it has a member

Java members of the same group compute the same shares. The names are those sent to brokers.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from hashlib import md5
from typing import Final, Protocol, TypeVar, final

from roquet.client.arguments import bad
from roquet.client.errors import BadArgument
from roquet.client.queue_ref import QueueRef
from roquet.protocol.names import RETRY_PREFIX

T = TypeVar("T")

_ROOM_SEPARATOR: Final = "@"
_VIRTUAL_COUNT: Final = 10


class Allocation(Protocol):
    """A strategy. A client that is not among `client_ids` gets nothing.

    For example:

        PushConsumer("127.0.0.1:9876", "billing", print, allocation=circle)
        PushConsumer("127.0.0.1:9876", "audit", print, allocation=ConsistentHash())
    """

    @property
    def name(self) -> str: ...

    def __call__(
        self, client_id: str, queues: Sequence[QueueRef], client_ids: Sequence[str]
    ) -> list[QueueRef]: ...


@final
class _Average:
    """One run of neighbours for each member; the first runs may be longer by one queue."""

    name: Final = "AVG"

    def __call__(
        self, client_id: str, queues: Sequence[QueueRef], client_ids: Sequence[str]
    ) -> list[QueueRef]:
        if client_id not in client_ids:
            return []
        index = client_ids.index(client_id)
        size, rest = divmod(len(queues), len(client_ids))
        start = index * size + min(index, rest)
        return list(queues[start : start + size + (index < rest)])


@final
class _Circle:
    """One queue for each member in turn, until none are left."""

    name: Final = "AVG_BY_CIRCLE"

    def __call__(
        self, client_id: str, queues: Sequence[QueueRef], client_ids: Sequence[str]
    ) -> list[QueueRef]:
        if client_id not in client_ids:
            return []
        return list(queues[client_ids.index(client_id) :: len(client_ids)])


average: Final[Allocation] = _Average()
circle: Final[Allocation] = _Circle()


@final
class ConsistentHash:
    """Members have several places each on a hash ring; a queue belongs to the next one."""

    name: Final = "CONSISTENT_HASH"

    def __init__(self, virtual_count: int = _VIRTUAL_COUNT) -> None:
        if virtual_count < 1:
            raise bad("virtual_count", "1 or more", virtual_count)
        self._virtual_count = virtual_count

    def __call__(
        self, client_id: str, queues: Sequence[QueueRef], client_ids: Sequence[str]
    ) -> list[QueueRef]:
        if client_id not in client_ids:
            return []
        # If two members hash to the same place, the later one wins.
        owners = {
            _ring_hash(f"{each}-{number}"): each
            for each in client_ids
            for number in range(self._virtual_count)
        }
        ring = sorted(owners)

        def owner(queue: QueueRef) -> str:
            place = bisect_left(ring, _ring_hash(_java_text(queue)))
            return owners[ring[place % len(ring)]]

        return [queue for queue in queues if owner(queue) == client_id]


@final
class FixedQueues:
    """These queues and no others, whatever the other members read.

    Retry topics are not listed, as they are created when a message fails: where none of its queues
    is listed, a retry topic is shared as `average` does. In Java no member reads it.
    """

    name: Final = "CONFIG"

    def __init__(self, queues: Iterable[QueueRef]) -> None:
        self._queues = frozenset(queues)

    def __call__(
        self, client_id: str, queues: Sequence[QueueRef], client_ids: Sequence[str]
    ) -> list[QueueRef]:
        listed = [queue for queue in queues if queue in self._queues]
        if queues and not listed and queues[0].topic.startswith(RETRY_PREFIX):
            return average(client_id, queues, client_ids)
        return listed


@final
class MachineRoom:
    """Shares the queues of brokers that are called `<room>@<rest>`, for the given rooms.

    Queues of other rooms are read only by members that were given those rooms.
    """

    name: Final = "MACHINE_ROOM"

    def __init__(self, rooms: Collection[str]) -> None:
        if isinstance(rooms, str) or not rooms:
            raise bad("rooms", "a collection of names", rooms)
        self._rooms = frozenset(rooms)

    def __call__(
        self, client_id: str, queues: Sequence[QueueRef], client_ids: Sequence[str]
    ) -> list[QueueRef]:
        if client_id not in client_ids:
            return []
        index = client_ids.index(client_id)
        shared = [queue for queue in queues if _room_in(queue.broker_name) in self._rooms]
        size, rest = divmod(len(shared), len(client_ids))
        # Unlike `average`, the rest comes after all the runs.
        left_over = shared[size * len(client_ids) :]
        return shared[index * size : (index + 1) * size] + left_over[index:rest][:1]


@final
class MachineRoomNearby:
    """Members share the queues of their own room, as `inner` allocates them.

    All members share the queues of rooms without a member. The two functions return the room of a
    queue and that of a client id; BadArgument is raised if one returns none.
    """

    def __init__(
        self,
        inner: Allocation,
        room_of_queue: Callable[[QueueRef], str],
        room_of_client: Callable[[str], str],
    ) -> None:
        self.name: Final = f"MACHINE_ROOM_NEARBY-{inner.name}"
        self._inner = inner
        self._room_of_queue = room_of_queue
        self._room_of_client = room_of_client

    def __call__(
        self, client_id: str, queues: Sequence[QueueRef], client_ids: Sequence[str]
    ) -> list[QueueRef]:
        if client_id not in client_ids:
            return []
        queues_by_room = _by_room(queues, self._room_of_queue, "room_of_queue")
        clients_by_room = _by_room(client_ids, self._room_of_client, "room_of_client")
        own_room = self._room_of_client(client_id)
        result = self._inner(client_id, queues_by_room.get(own_room, []), clients_by_room[own_room])
        for room in sorted(queues_by_room.keys() - clients_by_room.keys()):
            result += self._inner(client_id, queues_by_room[room], client_ids)
        return result


def _by_room(things: Iterable[T], room_of: Callable[[T], str], argument: str) -> dict[str, list[T]]:
    rooms: dict[str, list[T]] = defaultdict(list)
    for thing in things:
        room = room_of(thing)
        if not room:
            raise BadArgument(
                f"{thing} is in no room; `{argument}` must return one for it", argument
            )
        rooms[room].append(thing)
    return rooms


def _room_in(broker_name: str) -> str | None:
    """The room in `room@rest`; other names have none. Java drops empty parts at the end."""
    parts = broker_name.rstrip(_ROOM_SEPARATOR).split(_ROOM_SEPARATOR)
    return parts[0] if len(parts) == 2 else None


def _ring_hash(text: str) -> int:
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4])


def _java_text(queue: QueueRef) -> str:
    """Java's text for a queue: its hash decides which member reads the queue."""
    topic, broker_name, queue_id = queue
    return f"MessageQueue [topic={topic}, brokerName={broker_name}, queueId={queue_id}]"
