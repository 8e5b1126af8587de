"""Topics on several brokers with messages of every kind, and what reading them has to give."""

import time
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, final

from msgspec.structs import replace

from roquet import Admin, Message, Producer, QueueRef, TopicReader, TopicSettings
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.record_columns import PropertiesForm
from roquet.testing.blocking import BlockingCluster
from tests.support.blocking_peer import BlockingPeer
from tests.support.fake_clock import FakeClock
from tests.support.message_rows import rows_of
from tests.support.spark_store import TAGS, TOPICS, fill_with_everything
from tests.support.stores import opened

Rows = list[dict[str, Any]]

LOG_FILE_SIZE = 1 << 17
_SETTINGS = {
    "mappedFileSizeCommitLog": str(LOG_FILE_SIZE),
    "mappedFileSizeConsumeQueue": str(20 * 100),
    # Old files are deleted when a test wants it, not because it is four in the morning.
    "deleteWhen": f"{(time.localtime().tm_hour + 12) % 24:02}",
}


class Sent(NamedTuple):
    """What a message was when it was handed over, and where it went."""

    queue: QueueRef
    offset: int
    id: str
    body: bytes
    tags: str | None
    keys: tuple[str, ...]


@final
class RandomTopics:
    """Two brokers; the second one had a store with everything in it before it was started."""

    def __init__(self, cluster: BlockingCluster, seed: int, stored_count: int) -> None:
        self.cluster = cluster
        self.sent: list[Sent] = []
        self._chance = Random(seed)
        self._queue_count = 2
        self._fill_store(stored_count, seed)
        for topic in TOPICS:
            cluster.new_topic(topic, queues=self._queue_count)

    @staticmethod
    def cluster_settings() -> dict[str, str]:
        return dict(_SETTINGS)

    def store_of(self, broker: str) -> Path:
        """Where a broker keeps its files, whether it runs or not."""
        config = self.cluster._twin._brokers[broker].config
        return config.store.root

    def send(self, count: int) -> None:
        """Alone and together, small and packed, with tags that brokers take for each other."""
        with Producer(self.cluster.name_server, "senders") as producer:
            while count > 0:
                messages = [self._message() for _ in range(self._chance.choice((1, 1, 7)))]
                count -= len(messages)
                if len(messages) == 1:
                    receipts = [producer.send(messages[0])]
                else:
                    # Those of a batch are of one topic.
                    messages = [replace(each, topic=TOPICS[0]) for each in messages]
                    receipts = producer.send_batch(messages)
                self.sent += [
                    Sent(
                        receipt.queue,
                        receipt.queue_offset,
                        receipt.message_id,
                        message.body,
                        message.tags,
                        message.keys,
                    )
                    for receipt, message in zip(receipts, messages, strict=True)
                ]

    def add_queue(self) -> None:
        """To all topics, on all brokers."""
        self._queue_count += 1
        settings = TopicSettings(
            read_queue_count=self._queue_count, write_queue_count=self._queue_count
        )
        with Admin(self.cluster.name_server) as admin:
            for topic in TOPICS:
                admin.create_topic(topic, settings)

    def expire(self) -> None:
        """Days go by, and the operator wants old files gone; the last of each broker stays."""
        self.cluster.clock.advance(timedelta(days=4))
        for broker in self.cluster.broker_names:
            # A clock that was put forward makes nothing old while a broker runs.
            self.cluster.restart_broker(broker)
            with BlockingPeer(self.cluster.broker_address(broker)) as peer:
                reply = peer.call(RequestCode.DELETE_EXPIRED_COMMITLOG)
            assert reply.code == ResponseCode.SUCCESS

    def scalar_rows(self) -> Rows:
        """What is there now, read by a client, one message after the other."""
        rows: Rows = []
        with TopicReader(self.cluster.name_server) as reader:
            queues = [queue for topic in TOPICS for queue in reader.queues(topic)]
            for queue, (start, end) in reader.bounds(queues).items():
                for chunk in reader.records(queue, start, end):
                    rows += rows_of(bytes(chunk.data), PropertiesForm.MAP, queue.broker_name)
        return in_place(rows)

    def _fill_store(self, count: int, seed: int) -> None:
        self.cluster.stop_broker("broker-b")
        clock = FakeClock()
        sizes = {"commit_log_file_size": LOG_FILE_SIZE, "queue_file_size": 20 * 100}
        with opened(
            self.store_of("broker-b"), clock=clock, write_checksums=False, **sizes
        ) as store:
            fill_with_everything(store, clock, count, seed)
        self.cluster.start_broker("broker-b")

    def _message(self) -> Message:
        chance = self._chance
        body = chance.randbytes(chance.choice((1, 30, 300)))
        match chance.randrange(8):
            case 0:
                body = bytes(chance.randrange(5000, 9000))  # Producers pack what is large.
            case 1:
                body += self._record() + body
        return Message(
            chance.choice(TOPICS),
            body,
            tags=chance.choice((*TAGS, None)),
            keys=chance.choice(((), ("k",), ("k", "größe"))),
            properties={"price": str(chance.randrange(9))} if chance.random() < 0.7 else {},
        )

    def _record(self) -> bytes:
        """A whole record, as a broker has it: it may not be taken for one inside of a body."""
        if not self.sent:
            return b""
        place = self._chance.choice(self.sent)
        with TopicReader(self.cluster.name_server) as reader:
            chunks = reader.records(place.queue, place.offset, place.offset + 1)
            return b"".join(bytes(chunk.data) for chunk in chunks)


def in_place(rows: Rows) -> Rows:
    return sorted(
        rows,
        key=lambda row: (row["topic"], row["brokerName"] or "", row["queueId"], row["queueOffset"]),
    )
