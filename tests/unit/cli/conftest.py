"""A shop with two brokers, for commands that look at it: what they print is known beforehand."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from roquet.client.admin.topics import TopicSettings
from roquet.client.blocking.admin import Admin
from roquet.client.blocking.producer import Producer
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.protocol.messages.message import Message
from roquet.testing.blocking import BlockingCluster

TWO_QUEUES = TopicSettings(read_queue_count=2, write_queue_count=2)


class Shop(NamedTuple):
    """Topic "orders" has five messages: three in queue 0 of broker-a, two in queue 1 of broker-b.

    Group "billing" has taken one of the three and nothing else.
    """

    name_server: str
    admin: Admin
    producer: Producer
    message_ids: list[str]


ORDERS_A = QueueRef("orders", "broker-a", 0)
ORDERS_B = QueueRef("orders", "broker-b", 1)


def silent(message: ReceivedMessage) -> None:
    """A listener that is done with everything, and says nothing: commands print meanwhile."""


@pytest.fixture(autouse=True)
def _no_settings_of_whoever_runs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for name in ("NAMESRV_ADDR", "ROQUET_CONFIG", "ROQUET_ACCESS_KEY", "ROQUET_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", "nowhere")


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with (
        BlockingCluster(brokers=2) as cluster,
        Admin(cluster.name_server) as admin,
        Producer(cluster.name_server, "till") as producer,
    ):
        admin.create_topic("orders", TWO_QUEUES)
        receipts = [
            producer.send(
                Message("orders", b"order %d" % index, "new", (f"key{index}",), {"city": "Rome"}),
                queue=ORDERS_A if index < 3 else ORDERS_B,
            )
            for index in range(5)
        ]
        admin.create_group("billing")
        plan = admin.plan_reset("billing", "orders", {ORDERS_A: 1})
        admin.apply_reset(plan)
        ids = [each.message_id for each in receipts]
        yield Shop(cluster.name_server, admin, producer, ids)


@pytest.fixture
def at(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The shop is the default of commands."""
    monkeypatch.setenv("NAMESRV_ADDR", shop.name_server)
    return shop
