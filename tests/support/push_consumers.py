"""Push consumers of tests: quick ones, and listeners that keep what they get."""

from typing import Any

from roquet import AsyncProducer, Message
from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.topics import TopicSettings
from roquet.client.group.start_offset import StartFrom
from roquet.client.push.consumer import AsyncPushConsumer
from roquet.client.push.listeners import Listener
from roquet.client.received import ReceivedMessage
from tests.support.eventually import eventually
from tests.support.live_cluster import LiveCluster

TOPIC = "orders"
GROUP = "billing"
PATIENT_S = 10.0


class Inbox:
    """A listener that keeps what it gets; `errors` are raised, one for each call."""

    def __init__(self, *errors: Exception | None) -> None:
        self.messages: list[ReceivedMessage] = []
        self._errors = list(errors)

    async def __call__(self, message: ReceivedMessage) -> None:
        self.messages.append(message)
        if self._errors and (error := self._errors.pop(0)) is not None:
            raise error

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    async def has(self, count: int) -> None:
        await eventually(lambda: len(self.messages) >= count)


def consumer(
    cluster: LiveCluster, listener: Listener | None = None, topic: str = TOPIC, **options: Any
) -> AsyncPushConsumer:
    """Reads everything there is, and waits for nothing long."""
    quick: dict[str, Any] = {
        "start_from": StartFrom.FIRST,
        "error_pause_s": 0.05,
        "retry_pause_s": 0.01,
    }
    made = AsyncPushConsumer(cluster.name_server, GROUP, listener, **(quick | options))
    made.subscribe(topic)
    return made


async def new_topic(cluster: LiveCluster, queue_count: int, topic: str = TOPIC) -> None:
    async with AsyncAdmin(cluster.name_server) as admin:
        settings = TopicSettings(read_queue_count=queue_count, write_queue_count=queue_count)
        await admin.create_topic(topic, settings)


async def send(producer: AsyncProducer, *bodies: bytes, **options: Any) -> None:
    for body in bodies:
        await producer.send(Message(TOPIC, body, **options), timeout_s=PATIENT_S)


def numbers(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def committed(cluster: LiveCluster, topic: str = TOPIC, group: str = GROUP) -> int:
    """Over all queues."""
    return sum(cluster.brokers["broker-a"].tables.offsets.queues(group, topic).values())


def committed_soon(reading: AsyncPushConsumer) -> int:
    """What the next save would keep."""
    queues = reading.statistics().queues
    return sum(each.offset for queue, each in queues.items() if queue.topic == TOPIC)
