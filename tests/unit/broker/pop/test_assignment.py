"""Which members of a group get which queues."""

import pytest

from roquet.broker.pop.assignment import average, circle, popped_share, pulled_share
from roquet.protocol.bodies.body import MessageQueue


def queues(count: int, broker_name: str = "broker-a") -> list[MessageQueue]:
    return [
        MessageQueue(topic="orders", broker_name=broker_name, queue_id=queue_id)
        for queue_id in range(count)
    ]


def ids(share: list[MessageQueue]) -> list[int]:
    return [queue.queue_id for queue in share]


@pytest.mark.parametrize("client_id", ["a", "b", "c", "stranger"])
def test_popping_members_share_every_queue(client_id: str) -> None:
    both = queues(4) + queues(2, "broker-b")
    for share_count in (-1, 0, 2, 8):
        share = popped_share(client_id, ["a", "b", "c"], both, share_count)
        assert [(queue.broker_name, queue.queue_id) for queue in share] == [
            ("broker-a", -1),
            ("broker-b", -1),
        ]


def test_a_popping_member_gets_its_own_share_and_those_of_the_next_members() -> None:
    members = ["d", "c", "b", "a"]
    shares = [ids(popped_share(each, members, queues(8), 1)) for each in "abcd"]
    assert shares == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 0, 1]]


def test_more_popping_members_than_queues_have_one_each() -> None:
    members = ["a", "b", "c", "d", "e"]
    assert [ids(popped_share(each, members, queues(2), 1)) for each in members] == [
        [0],
        [1],
        [0],
        [1],
        [0],
    ]


def test_pulling_members_share_without_overlap() -> None:
    members = ["b", "a", "c"]
    assert [ids(pulled_share(each, members, queues(4))) for each in "abc"] == [[0, 1], [2], [3]]
    in_turn = [ids(pulled_share(each, members, queues(4), circle)) for each in "abc"]
    assert in_turn == [[0, 3], [1], [2]]


def test_a_stranger_gets_nothing() -> None:
    assert pulled_share("x", ["a", "b"], queues(4), average) == []
    assert popped_share("x", ["a", "b", "c", "d"], queues(8), 1) == []
    assert popped_share("a", ["a", "b", "c", "d"], [], 1) == []
