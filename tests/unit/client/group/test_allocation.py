"""Sharing queues: the results that Java's own classes gave, and the rules around them."""

import pytest

from roquet.client.errors import BadArgument
from roquet.client.group.allocation import (
    Allocation,
    ConsistentHash,
    FixedQueues,
    MachineRoom,
    MachineRoomNearby,
    average,
    circle,
)
from roquet.client.queue_ref import QueueRef
from tests.support.raising import raises

QUEUES = [
    QueueRef("TopicTest", broker, queue_id)
    for broker in ("broker-a", "broker-b")
    for queue_id in range(4)
]
CLIENTS = ["10.0.0.1@111#1", "10.0.0.2@222#2", "10.0.0.3@333#3"]
EAST_WEST = [QueueRef("t", f"{room}@1", number) for room in ("east", "west") for number in range(4)]


def short(queues: list[QueueRef]) -> str:
    """`a0 b3` for queue 0 of broker-a and queue 3 of broker-b."""
    return " ".join(f"{queue.broker_name[-1]}{queue.queue_id}" for queue in queues)


def room_of_queue(queue: QueueRef) -> str:
    return queue.broker_name.partition("@")[0]


def room_of_client(client_id: str) -> str:
    return client_id.partition("-")[0]


@pytest.mark.parametrize(
    ("allocation", "shares"),
    [
        (average, ["a0 a1 a2", "a3 b0 b1", "b2 b3"]),
        (circle, ["a0 a3 b2", "a1 b0 b3", "a2 b1"]),
        (ConsistentHash(), ["a0 a1 a2 b0 b1", "b2 b3", "a3"]),
    ],
    ids=["average", "circle", "consistent hash"],
)
def test_three_members_share_eight_queues_as_in_java(
    allocation: Allocation, shares: list[str]
) -> None:
    assert [short(allocation(client, QUEUES, CLIENTS)) for client in CLIENTS] == shares


@pytest.mark.parametrize("allocation", [average, circle])
def test_members_beyond_the_last_queue_get_none(allocation: Allocation) -> None:
    clients = [f"c{number}" for number in range(10)]
    shares = [allocation(client, QUEUES, clients) for client in clients]
    assert shares == [[queue] for queue in QUEUES] + [[], []]


@pytest.mark.parametrize(
    "allocation",
    [
        average,
        circle,
        ConsistentHash(),
        MachineRoom(["east"]),
        MachineRoomNearby(average, room_of_queue, room_of_client),
    ],
    ids=lambda allocation: allocation.name,
)
def test_a_client_that_is_not_in_the_group_gets_nothing(allocation: Allocation) -> None:
    assert allocation("east-9", EAST_WEST, ["east-1", "east-2"]) == []
    assert allocation("east-9", EAST_WEST, []) == []


def test_the_names_are_those_that_java_uses() -> None:
    nearby = MachineRoomNearby(ConsistentHash(), room_of_queue, room_of_client)
    strategies = (average, circle, ConsistentHash(), FixedQueues([]), MachineRoom(["east"]), nearby)
    assert [strategy.name for strategy in strategies] == [
        "AVG",
        "AVG_BY_CIRCLE",
        "CONSISTENT_HASH",
        "CONFIG",
        "MACHINE_ROOM",
        "MACHINE_ROOM_NEARBY-CONSISTENT_HASH",
    ]


def test_a_ring_without_places_is_refused() -> None:
    with raises(BadArgument, argument="virtual_count"):
        ConsistentHash(virtual_count=0)


def test_listed_queues_are_read_whichever_members_join() -> None:
    listed = FixedQueues([QUEUES[1], QUEUES[6], QueueRef("TopicTest", "broker-c", 0)])
    assert short(listed("me", QUEUES, CLIENTS)) == "a1 b2"


def test_retry_topics_that_are_not_listed_are_shared() -> None:
    retries = [QueueRef("%RETRY%group", "broker-a", number) for number in range(3)]
    allocation = FixedQueues([QUEUES[0]])
    assert [short(allocation(client, retries, CLIENTS)) for client in CLIENTS] == ["a0", "a1", "a2"]
    assert FixedQueues([retries[2]])(CLIENTS[0], retries, CLIENTS) == [retries[2]]


def test_a_topic_without_queues_leaves_nothing_to_list() -> None:
    assert FixedQueues([QUEUES[0]])("me", [], CLIENTS) == []


def test_queues_of_named_rooms_are_shared_and_what_is_left_over_comes_last() -> None:
    queues = [QueueRef("t", broker, number) for broker in ("east@1", "w") for number in range(5)]
    shares = [MachineRoom(["east"])(client, queues, CLIENTS) for client in CLIENTS]
    assert [short(share) for share in shares] == ["10 13", "11 14", "12"]


@pytest.mark.parametrize(
    ("broker", "is_taken"),
    [
        ("east@1", True),
        ("east@1@", True),  # Java drops empty parts at the end
        ("@1", False),
        ("east", False),
        ("east@", False),
        ("east@1@2", False),
        ("west@1", False),
    ],
)
def test_a_room_is_the_first_of_two_parts_of_a_broker_name(broker: str, is_taken: bool) -> None:
    queue = QueueRef("t", broker, 0)
    assert MachineRoom(["east"])("me", [queue], ["me"]) == ([queue] if is_taken else [])


@pytest.mark.parametrize("rooms", ["east", []])
def test_rooms_are_a_collection_of_names(rooms: list[str]) -> None:
    with raises(BadArgument, argument="rooms"):
        MachineRoom(rooms)


def nearby(client_id: str, client_ids: list[str]) -> list[str]:
    allocation = MachineRoomNearby(average, room_of_queue, room_of_client)
    found = allocation(client_id, EAST_WEST, client_ids)
    return [f"{room_of_queue(queue)}{queue.queue_id}" for queue in found]


def test_queues_stay_in_the_room_of_their_broker() -> None:
    clients = ["east-1", "east-2", "west-1"]
    assert nearby("east-1", clients) == ["east0", "east1"]
    assert nearby("east-2", clients) == ["east2", "east3"]
    assert nearby("west-1", clients) == ["west0", "west1", "west2", "west3"]


def test_queues_of_a_room_without_members_are_shared_by_all() -> None:
    clients = ["east-1", "east-2", "south-1"]
    assert nearby("east-1", clients) == ["east0", "east1", "west0", "west1"]
    assert nearby("east-2", clients) == ["east2", "east3", "west2"]
    assert nearby("south-1", clients) == ["west3"]


def test_nothing_may_be_in_no_room() -> None:
    allocation = MachineRoomNearby(average, room_of_queue, room_of_client)
    with raises(BadArgument, argument="room_of_client"):
        allocation("east-1", EAST_WEST, ["-1", "east-1"])
    with raises(BadArgument, argument="room_of_queue"):
        allocation("east-1", [QueueRef("t", "@1", 0)], ["east-1"])
