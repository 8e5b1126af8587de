"""Tracers: what they write, when, and what they leave out."""

import asyncio
from collections.abc import Mapping

import pytest

from roquet import AsyncProducer, AsyncTransactionProducer, Message, QueueRef, TransactionState
from roquet.client.arguments import utc
from roquet.client.errors import BadArgument, SendFailed
from roquet.client.hooks import ConsumeOutcome, Consuming
from roquet.client.producer.outgoing import Ready
from roquet.client.producer.queue_choice import Target
from roquet.client.producer.receipt import SendReceipt
from roquet.client.received import ReceivedMessage, received_of
from roquet.client.trace.tracing import (
    EndTransactionRecord,
    PubRecord,
    SubAfterRecord,
    SubBeforeRecord,
    Tracer,
    TraceRecord,
    parse_traces,
)
from roquet.protocol.host import pack_host
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.properties import properties_text
from roquet.protocol.names import TRACE_TOPIC
from tests.support.eventually import eventually
from tests.support.live_cluster import LiveCluster
from tests.support.raising import raises

TOPIC = "orders"
RECEIPT = SendReceipt("ID", QueueRef(TRACE_TOPIC, "a", 0), 0, "OFFSET")


def records(text: bytes) -> list[TraceRecord]:
    return list(parse_traces(text.decode()))


class Sink:
    """A producer for tracers that keeps what it is given, or fails."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.is_open = False
        self.is_broken = False
        self.may_send = asyncio.Event()
        self.may_send.set()

    async def open(self) -> None:
        self.is_open = True

    async def close(self) -> None:
        self.is_open = False

    def ready(self, message: Message, extra: Mapping[str, str]) -> Ready:
        assert not extra
        return Ready(message, "ID", "")

    async def send(self, ready: Ready, target: Target, timeout_s: float) -> SendReceipt:
        assert not target.is_fixed
        assert timeout_s > 0
        await self.may_send.wait()
        if self.is_broken:
            raise SendFailed(TRACE_TOPIC, "no broker")
        self.sent.append(ready.message)
        return RECEIPT

    @property
    def records(self) -> list[TraceRecord]:
        return [record for message in self.sent for record in records(message.body)]


def received(body: bytes = b"x", topic: str = TOPIC, **properties: str) -> ReceivedMessage:
    draft = RecordDraft(
        queue_id=0,
        flag=0,
        sys_flag=0,
        born_timestamp=1,
        born_host=pack_host("127.0.0.1", 1),
        store_host=pack_host("127.0.0.1", 2),
        body=body,
        topic=topic.encode(),
        properties=properties_text(properties).encode(),
        reconsume_times=3,
    )
    return received_of(draft.pack(0, 0, 1), "a")


def consuming(*messages: ReceivedMessage) -> Consuming:
    return Consuming("billing", QueueRef(TOPIC, "a", 0), messages, begin=utc(1700000000000))


async def test_sends_are_written_down_in_the_trace_topic(cluster: LiveCluster) -> None:
    messages = [Message(TOPIC, b"one", tags="red", keys=("k1", "k2")), Message(TOPIC, b"two")]
    async with AsyncProducer(cluster.name_server, "shop", trace=True) as producer:
        receipts = await producer.send_batch(messages)
        delayed = await producer.send(messages[0], delay_level=1)
    (trace,) = cluster.all_stored(TRACE_TOPIC)
    first, second, third = records(trace.body)
    assert isinstance(first, PubRecord)
    assert (first.message_id, first.offset_id) == (receipts[0].message_id, receipts[0].offset_id)
    assert (first.group, first.topic, first.tags, first.keys) == ("shop", TOPIC, "red", "k1 k2")
    assert (first.body_size, first.is_success, first.region) == (3, True, "DefaultRegion")
    port = cluster.brokers["broker-a"].config.listen_port
    assert first.store_host == f"127.0.0.1:{port}"
    assert (second.message_id, third.message_id) == (receipts[1].message_id, delayed.message_id)
    assert set(trace.keys) == {
        *(receipt.message_id for receipt in [*receipts, delayed]),
        *("k1", "k2"),
    }


async def test_a_trace_topic_can_be_named(cluster: LiveCluster) -> None:
    async with AsyncProducer(cluster.name_server, "shop", trace="traces") as producer:
        await producer.send(Message(TOPIC, b"x"))
    assert len(cluster.all_stored("traces")) == 1
    with raises(BadArgument, argument="topic"):
        AsyncProducer(cluster.name_server, "shop", trace="no topic")


async def test_the_ends_of_transactions_are_written_down(cluster: LiveCluster) -> None:
    async with AsyncTransactionProducer(
        cluster.name_server, "payers", check=lambda _: TransactionState.COMMIT, trace=True
    ) as producer:
        ended = await producer.send_in_transaction(
            Message(TOPIC, b"x", keys=("k",)), lambda _: TransactionState.ROLLBACK
        )
    half, end = records(cluster.all_stored(TRACE_TOPIC)[0].body)
    assert isinstance(half, PubRecord)
    assert isinstance(end, EndTransactionRecord)
    assert half.message_id == end.message_id == end.transaction_id == ended.id
    assert (half.kind, end.kind, end.state) == (1, 2, "ROLLBACK_MESSAGE")
    assert (end.keys, end.is_answer) == ("k", False)


async def test_consumption_is_written_down_before_and_after() -> None:
    sink = Sink()
    tracer = Tracer(sink, TRACE_TOPIC)
    await tracer.open()
    both = consuming(received(UNIQ_KEY="ID1", KEYS="k"), received(UNIQ_KEY="ID2"))
    tracer.before_consume(both)
    both.duration_s, both.outcome = 0.008, ConsumeOutcome.RAISED
    tracer.after_consume(both)
    await tracer.close()
    first, second, third, fourth = sink.records
    assert isinstance(first, SubBeforeRecord)
    assert isinstance(third, SubAfterRecord)
    assert (first.message_id, first.keys, first.retry_count) == ("ID1", "k", 3)
    assert (second.message_id, fourth.message_id) == ("ID2", "ID2")
    assert first.request_id == third.request_id != ""
    assert (third.duration_ms, third.is_success, third.outcome) == (4, False, ConsumeOutcome.RAISED)
    assert third.group == "billing"
    assert not sink.is_open


async def test_what_must_not_be_traced_is_left_out() -> None:
    sink = Sink()
    tracer = Tracer(sink, TRACE_TOPIC)
    await tracer.open()
    untraced = consuming(received(TRACE_ON="false"), received(topic=TRACE_TOPIC))
    tracer.before_consume(untraced)
    tracer.after_consume(untraced)
    await tracer.close()
    assert not sink.sent


@pytest.mark.slow
async def test_records_wait_for_each_other_but_not_for_long() -> None:
    sink = Sink()
    tracer = Tracer(sink, TRACE_TOPIC)
    await tracer.open()
    for number in range(3):
        tracer.before_consume(consuming(received(UNIQ_KEY=f"ID{number}")))
    await eventually(lambda: sink.sent)
    assert len(sink.sent) == 1
    assert len(sink.records) == 3
    await tracer.close()


async def test_long_records_are_spread_over_messages_that_fit() -> None:
    sink = Sink()
    tracer = Tracer(sink, TRACE_TOPIC)
    await tracer.open()
    for number in range(1000):
        tracer.before_consume(consuming(received(UNIQ_KEY=f"ID{number}", KEYS="k" * 200)))
    await tracer.close()
    assert [record.message_id for record in sink.records] == [f"ID{n}" for n in range(1000)]
    assert len(sink.sent) > 1
    assert all(len(message.body) <= 128_000 for message in sink.sent)
    assert all(len(" ".join(message.keys)) <= 32_000 for message in sink.sent)


async def test_what_is_too_much_is_dropped_and_counted() -> None:
    sink = Sink()
    sink.may_send.clear()
    tracer = Tracer(sink, TRACE_TOPIC)
    await tracer.open()
    for _ in range(1030):
        tracer.before_consume(consuming(received(UNIQ_KEY="ID")))
    assert tracer.dropped_count == 6
    sink.may_send.set()
    await tracer.close()
    assert len(sink.records) == 1024


async def test_records_that_cannot_be_sent_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    sink = Sink()
    sink.is_broken = True
    tracer = Tracer(sink, TRACE_TOPIC)
    await tracer.open()
    tracer.before_consume(consuming(received(UNIQ_KEY="ID")))
    await tracer.close()
    assert tracer.dropped_count == 1
    assert "no broker" in caplog.text
