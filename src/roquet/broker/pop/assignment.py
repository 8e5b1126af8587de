"""Which queues a member of a group gets if the broker shares them out, as a 5.x client may ask.

Pulling members share the queues without overlap, by Apache's strategies. Popping members may all
pop every queue, or each its own share and those of the members after it: with a share of 2, a
queue is popped by three members.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from roquet.protocol.bodies.body import MessageQueue

# In place of a queue: all those of the broker.
ALL_QUEUES: Final = -1

Strategy: TypeAlias = Callable[[int, int, Sequence[MessageQueue]], Sequence[MessageQueue]]


def average(index: int, count: int, queues: Sequence[MessageQueue]) -> Sequence[MessageQueue]:
    """One run of neighbours for each member; the first runs may be longer by one queue."""
    size, rest = divmod(len(queues), count)
    start = index * size + min(index, rest)
    return queues[start : start + size + (index < rest)]


def circle(index: int, count: int, queues: Sequence[MessageQueue]) -> Sequence[MessageQueue]:
    """One queue for each member in turn."""
    return queues[index::count]


# By the names that clients send.
STRATEGIES: Final[Mapping[str, Strategy]] = {"AVG": average, "AVG_BY_CIRCLE": circle}


def pulled_share(
    client_id: str,
    client_ids: Sequence[str],
    queues: Sequence[MessageQueue],
    strategy: Strategy = average,
) -> list[MessageQueue]:
    """Empty for a client that is no member."""
    members = sorted(client_ids)
    if client_id not in members:
        return []
    return list(strategy(members.index(client_id), len(members), sorted(queues)))


def popped_share(
    client_id: str,
    client_ids: Sequence[str],
    queues: Sequence[MessageQueue],
    share_count: int,
    strategy: Strategy = average,
) -> list[MessageQueue]:
    """`share_count` is how many other members' shares each member pops, too; all, if 0 or less."""
    members, ordered = sorted(client_ids), sorted(queues)
    count = len(members)
    if share_count <= 0 or share_count >= count - 1:
        names = sorted({(queue.topic, queue.broker_name) for queue in ordered})
        return [
            MessageQueue(topic=topic, broker_name=name, queue_id=ALL_QUEUES)
            for topic, name in names
        ]
    if client_id not in members or not ordered:
        return []
    index = members.index(client_id)
    if count > len(ordered):
        return [ordered[index % len(ordered)]]
    return [
        queue
        for distance in range(share_count + 1)
        for queue in strategy((index + distance) % count, count, ordered)
    ]
