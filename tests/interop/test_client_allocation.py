"""A mixed group shares its queues only if Java members come to the same result."""

from collections.abc import Callable

import pytest
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
from tests.support.jars import ApacheVersion
from tests.support.java_driver import JavaDriver

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

ROOMS = ("north", "south", "west")
NAMED_ROOMS = ["north", "west"]

queues = st.lists(
    st.builds(
        QueueRef,
        st.sampled_from(["orders", "订单"]),
        st.builds("{}@{}".format, st.sampled_from(ROOMS), st.sampled_from("ab")),
        st.integers(0, 15),
    ),
    min_size=1,
    max_size=40,
    unique=True,
).map(sorted)
clients = st.lists(
    st.builds("{}-10.0.0.{}@1#1".format, st.sampled_from(ROOMS), st.integers(0, 30)),
    min_size=1,
    max_size=12,
    unique=True,
).map(sorted)


def room_of_queue(queue: QueueRef) -> str:
    return queue.broker_name.partition("@")[0]


def room_of_client(client_id: str) -> str:
    return client_id.partition("-")[0]


plain = st.sampled_from([average, circle, MachineRoom(NAMED_ROOMS)])
strategies = (
    plain
    | st.just(ConsistentHash(7))
    | st.builds(
        MachineRoomNearby,
        plain | st.just(ConsistentHash(7)),
        st.just(room_of_queue),
        st.just(room_of_client),
    )
)


@pytest.mark.parametrize("version", list(ApacheVersion))
@given(st.data())
def test_java_members_share_queues_as_we_do(
    java_drivers: Callable[[ApacheVersion], JavaDriver],
    version: ApacheVersion,
    data: st.DataObject,
) -> None:
    allocation: Allocation = data.draw(strategies)
    all_queues, all_clients = data.draw(queues), data.draw(clients)
    arguments = {
        "name": allocation.name,
        "virtualCount": 7,
        "rooms": NAMED_ROOMS,
        "queues": all_queues,
        "clients": all_clients,
    }
    in_java = java_drivers(version).call("allocation.shares", arguments, list[list[int]])
    ours = [
        [all_queues.index(queue) for queue in allocation(client, all_queues, all_clients)]
        for client in all_clients
    ]
    assert ours == in_java
