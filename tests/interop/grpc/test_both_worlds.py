"""Messages that cross between the SDKs of 5.x, by gRPC, and Java clients of remoting."""

from collections.abc import Callable

import pytest

from tests.support.java_client import (
    JavaProducer,
    JavaPushConsumer,
    Outgoing,
    Received,
    Subscription,
)
from tests.support.java_driver import JavaDriver
from tests.support.sdk_programs import SdkProgram
from tests.support.sdk_stories import SdkWorld

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("java-sdk")]

NewName = Callable[[str], str]


class Crossing:
    """Both clients of one broker, and names that no other test has."""

    def __init__(
        self, world: SdkWorld, sdk: SdkProgram, java: JavaDriver, new_name: NewName
    ) -> None:
        self.world = world
        self.sdk = sdk
        self._java = java
        self.topic = new_name("topic")
        self.group = new_name("group")

    def made(self, kind: str = "NORMAL") -> "Crossing":
        self.world.make_topic(self.topic, kind)
        return self

    def consumed(self, count: int, *, failures: int = 0) -> list[Received]:
        """By remoting."""
        names = self.world.names.address
        subscription = Subscription(self.topic)
        with JavaPushConsumer(
            self._java, names, self.group, subscription, failures=failures
        ) as consumer:
            return consumer.received(count)

    def send(self, body: bytes, **properties: str) -> str:
        """By remoting; the id."""
        with JavaProducer(self._java, self.world.names.address, "producers") as producer:
            message = Outgoing(self.topic, body, properties=properties)
            return producer.send(message).message_id


@pytest.fixture
def crossing(
    world: SdkWorld, java_sdk: SdkProgram, java: JavaDriver, new_name: NewName
) -> Crossing:
    return Crossing(world, java_sdk, java, new_name)


def test_remoting_gets_all_that_a_message_of_grpc_has(crossing: Crossing) -> None:
    (message_id,) = crossing.made().sdk.run("send", crossing.topic)
    (found,) = crossing.consumed(1)
    assert (found.body, found.message_id, found.reconsume_times) == (b"by gRPC", message_id, 0)
    wanted = {"TAGS": "new", "KEYS": "k1 k2", "city": "Rome", "UNIQ_KEY": message_id}
    assert {name: found.properties[name] for name in wanted} == wanted


def test_grpc_gets_all_that_a_message_of_remoting_has(crossing: Crossing) -> None:
    properties = {"TAGS": "old", "KEYS": "k1 k2", "city": "Rome", "__SHARDINGKEY": "orders-1"}
    message_id = crossing.made().send(b"by remoting", **properties)
    *found, born_ms = crossing.sdk.run("read", crossing.topic, crossing.group)
    assert found == [
        message_id,
        "by remoting",
        "old",
        ["k1", "k2"],
        {"city": "Rome"},
        "orders-1",
        1,
        "127.0.0.1",
    ]
    assert born_ms > 0


def test_grpc_unpacks_what_remoting_compressed(crossing: Crossing) -> None:
    text = "compressed " * 2000
    crossing.made().send(text.encode())
    found = crossing.sdk.run("read", crossing.topic, crossing.group)
    assert found[1] == text


def test_a_message_group_is_a_sharding_key(crossing: Crossing) -> None:
    crossing.made("FIFO").sdk.run("order", crossing.topic)
    found = sorted(crossing.consumed(20), key=lambda each: (each.queue_id, each.queue_offset))
    for key in ("orders-0", "orders-1"):
        of_key = [each for each in found if each.properties["__SHARDINGKEY"] == key]
        assert [each.body for each in of_key] == [b"%d" % index for index in range(10)]
        assert len({each.queue_id for each in of_key}) == 1


def test_a_message_of_grpc_is_retried_by_remoting(crossing: Crossing) -> None:
    crossing.made().sdk.run("send", crossing.topic)
    found = crossing.consumed(2, failures=1)
    assert [each.reconsume_times for each in found] == [0, 1]


def test_a_delayed_message_of_remoting_comes_to_grpc(crossing: Crossing) -> None:
    crossing.made().send(b"later", DELAY="1")
    assert crossing.sdk.run("read", crossing.topic, crossing.group)[1] == "later"
