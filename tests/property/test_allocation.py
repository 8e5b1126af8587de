"""However a group shares its queues: no two members read the same queue, and nothing is left."""

from collections import Counter

from hypothesis import given, strategies as st

from roquet.client.group.allocation import (
    Allocation,
    ConsistentHash,
    MachineRoom,
    MachineRoomNearby,
    average,
    circle,
)
from roquet.client.queue_ref import QueueRef

ROOMS = ("north", "south", "west")

queues = st.lists(
    st.builds(
        QueueRef,
        st.just("t"),
        st.builds("{}@{}".format, st.sampled_from(ROOMS), st.sampled_from("ab")),
        st.integers(0, 15),
    ),
    unique=True,
).map(sorted)
clients = st.lists(
    st.builds("{}-{}".format, st.sampled_from(ROOMS), st.integers(0, 30)), min_size=1, unique=True
).map(sorted)
plain = st.sampled_from([average, circle, MachineRoom(ROOMS)]) | st.builds(
    ConsistentHash, st.integers(1, 20)
)


def room_of_queue(queue: QueueRef) -> str:
    return queue.broker_name.partition("@")[0]


def room_of_client(client_id: str) -> str:
    return client_id.partition("-")[0]


strategies = plain | st.builds(
    MachineRoomNearby, plain, st.just(room_of_queue), st.just(room_of_client)
)


@given(strategies, queues, clients)
def test_every_queue_has_one_reader(
    allocation: Allocation, queues: list[QueueRef], clients: list[str]
) -> None:
    read = Counter(queue for client in clients for queue in allocation(client, queues, clients))
    assert read == Counter(queues)


@given(st.sampled_from([average, circle, MachineRoom(ROOMS)]), queues, clients)
def test_no_member_has_two_queues_more_than_another(
    allocation: Allocation, queues: list[QueueRef], clients: list[str]
) -> None:
    counts = [len(allocation(client, queues, clients)) for client in clients]
    assert max(counts) - min(counts) <= 1


@given(queues, clients, st.data())
def test_on_the_ring_only_queues_of_those_that_left_move(
    queues: list[QueueRef], clients: list[str], data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(clients))
    stayed = [client for client in clients if client != gone]
    allocation = ConsistentHash()
    for client in stayed:
        before = set(allocation(client, queues, clients))
        assert before <= set(allocation(client, queues, stayed))


@given(queues, clients)
def test_queues_leave_their_zone_only_where_no_member_is(
    queues: list[QueueRef], clients: list[str]
) -> None:
    allocation = MachineRoomNearby(average, room_of_queue, room_of_client)
    inhabited = set(map(room_of_client, clients))
    for client in clients:
        for queue in allocation(client, queues, clients):
            room = room_of_queue(queue)
            assert room == room_of_client(client) or room not in inhabited
