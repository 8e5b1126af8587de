"""Spans of producers and consumers, sent through a real broker."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    HistogramDataPoint,
    InMemoryMetricReader,
    NumberDataPoint,
)
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from roquet import (
    AsyncProducer,
    AsyncPullConsumer,
    AsyncPushConsumer,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    RetryLater,
    SendFailed,
    StartFrom,
)
from roquet.client.errors import BadArgument
from roquet.otel import MetricsHook, TracingHook, context_of
from roquet.testing import BlockingCluster, Cluster
from tests.support.eventually import eventually, wait_until
from tests.support.raising import raises

TOPIC, GROUP = "orders", "billing"


class Traces:
    """What was exported, and a hook that leads there."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.hook = TracingHook(self.provider)
        self.tracer = self.provider.get_tracer("test")

    def all(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.all(name)
        return span


@pytest.fixture
def traces() -> Iterator[Traces]:
    found = Traces()
    yield found
    found.provider.shutdown()


def parent_id(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def context_in(span: ReadableSpan) -> SpanContext:
    found = span.get_span_context()
    assert found is not None
    return found


def own_id(span: ReadableSpan) -> int:
    return context_in(span).span_id


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def consumer_of(cluster: Cluster, traces: Traces, **options: Any) -> AsyncPushConsumer:
    return AsyncPushConsumer(
        cluster.name_server, GROUP, start_from=StartFrom.FIRST, hooks=[traces.hook], **options
    )


async def test_sender_and_receiver_are_in_one_trace(traces: Traces) -> None:
    async def bill(message: ReceivedMessage) -> None:
        with traces.tracer.start_as_current_span("inside"):
            assert message.body == b"one coffee"

    async with Cluster() as cluster:
        consumer = consumer_of(cluster, traces, listener=bill)
        consumer.subscribe(TOPIC)
        async with AsyncProducer(cluster.name_server, "shop", hooks=[traces.hook]) as producer:
            with traces.tracer.start_as_current_span("request"):
                message = Message(TOPIC, b"one coffee", tags="new", keys=("k-1",))
                receipt = await producer.send(message)
            async with consumer:
                await eventually(lambda: traces.all(f"process {TOPIC}"))
    names = ("request", f"create {TOPIC}", f"send {TOPIC}", f"process {TOPIC}", "inside")
    request, create, send, process, inside = map(traces.one, names)
    spans = (request, create, send, process, inside)
    assert len({context_in(span).trace_id for span in spans}) == 1
    assert parent_id(create) == own_id(request)
    assert parent_id(send) == parent_id(process) == own_id(create)
    assert parent_id(inside) == own_id(process)
    kinds = (create.kind, send.kind, process.kind)
    assert kinds == (SpanKind.PRODUCER, SpanKind.CLIENT, SpanKind.CONSUMER)
    assert attributes(process) == {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": TOPIC,
        "messaging.destination.partition.id": str(receipt.queue.queue_id),
        "messaging.consumer.group.name": GROUP,
        "messaging.message.id": receipt.message_id,
        "messaging.message.body.size": 10,
        "messaging.rocketmq.message.tag": "new",
        "messaging.rocketmq.message.keys": ("k-1",),
    }
    sent = attributes(send)
    assert sent["messaging.message.id"] == receipt.message_id
    assert (sent["server.address"], sent["messaging.rocketmq.message.type"]) == (
        "127.0.0.1",
        "normal",
    )


def test_it_is_the_same_for_plain_functions_in_threads(traces: Traces) -> None:
    bills: list[int] = []

    def bill(_message: ReceivedMessage) -> None:
        bills.append(trace.get_current_span().get_span_context().span_id)

    with BlockingCluster() as cluster:
        consumer = PushConsumer(
            cluster.name_server, GROUP, bill, start_from=StartFrom.FIRST, hooks=[traces.hook]
        )
        consumer.subscribe(TOPIC)
        with Producer(cluster.name_server, "shop", hooks=[traces.hook]) as producer:
            with traces.tracer.start_as_current_span("request"):
                producer.send(Message(TOPIC, b"one coffee"))
            with consumer:
                wait_until(lambda: traces.all(f"process {TOPIC}"))
    request, create = traces.one("request"), traces.one(f"create {TOPIC}")
    process = traces.one(f"process {TOPIC}")
    assert bills == [own_id(process)]
    assert (parent_id(create), parent_id(process)) == (own_id(request), own_id(create))


async def test_messages_that_share_a_request_are_linked(traces: Traces) -> None:
    async with (
        Cluster() as cluster,
        AsyncProducer(cluster.name_server, "shop", hooks=[traces.hook]) as producer,
    ):
        await producer.send_batch([Message(TOPIC, b"1"), Message(TOPIC, b"2")])
    send = traces.one(f"send {TOPIC}")
    created = {own_id(span) for span in traces.all(f"create {TOPIC}")}
    assert {link.context.span_id for link in send.links} == created
    assert len(created) == attributes(send)["messaging.batch.message_count"] == 2


async def test_a_message_that_comes_again_stays_in_its_trace(traces: Traces) -> None:
    async def bill(message: ReceivedMessage) -> None:
        if not message.retry_count:
            raise RetryLater(delay_level=1)

    async with Cluster() as cluster:
        consumer = consumer_of(cluster, traces, listener=bill)
        consumer.subscribe(TOPIC)
        async with AsyncProducer(cluster.name_server, "shop", hooks=[traces.hook]) as producer:
            await producer.send(Message(TOPIC, b"one coffee"))
            async with consumer:
                await eventually(lambda: len(traces.all(f"process {TOPIC}")) == 2)
    create = traces.one(f"create {TOPIC}")
    first, second = traces.all(f"process {TOPIC}")
    assert parent_id(first) == parent_id(second) == own_id(create)
    assert first.status.status_code is StatusCode.ERROR
    assert attributes(first)["error.type"] == "roquet.client.push.outcome.RetryLater"
    assert not first.events
    assert second.status.status_code is StatusCode.UNSET


async def test_a_send_that_fails_says_so(traces: Traces) -> None:
    async with Cluster() as cluster:
        topic = await cluster.new_topic()
        hooks = [traces.hook]
        async with AsyncProducer(cluster.name_server, "shop", hooks=hooks) as producer:
            await cluster.stop_broker()
            with pytest.raises(SendFailed):
                await producer.send(Message(topic, b"one coffee"), timeout_s=1.0)
    send = traces.one(f"send {topic}")
    assert send.status.status_code is StatusCode.ERROR
    assert attributes(send)["error.type"].startswith("roquet.client.errors.")
    assert send.end_time is not None


async def test_one_that_pulls_finds_the_context_in_the_message(traces: Traces) -> None:
    async with (
        Cluster() as cluster,
        AsyncProducer(cluster.name_server, "shop", hooks=[traces.hook]) as producer,
    ):
        await producer.send(Message(TOPIC, b"one coffee"))
        options: dict[str, Any] = {"start_from": StartFrom.FIRST}
        async with AsyncPullConsumer(cluster.name_server, GROUP, **options) as consumer:
            consumer.subscribe(TOPIC)
            (message,) = await consumer.poll(timeout_s=30.0)
    found = trace.get_current_span(context_of(message)).get_span_context()
    assert found.span_id == own_id(traces.one(f"create {TOPIC}"))


async def test_a_message_without_a_trace_starts_one(traces: Traces) -> None:
    async def bill(_message: ReceivedMessage) -> None:
        pass

    async with Cluster() as cluster:
        consumer = consumer_of(cluster, traces, listener=bill)
        consumer.subscribe(TOPIC)
        async with AsyncProducer(cluster.name_server, "shop") as producer:
            await producer.send(Message(TOPIC, b"one coffee"))
        async with consumer:
            await eventually(lambda: traces.all(f"process {TOPIC}"))
    assert traces.one(f"process {TOPIC}").parent is None


def test_what_is_no_provider_is_refused() -> None:
    with raises(BadArgument, argument="tracer_provider"):
        TracingHook("provider")  # type: ignore[arg-type]


# Metrics.


def points(reader: InMemoryMetricReader) -> dict[tuple[str, str, str | None], float]:
    """Counts by the name of the instrument, the topic, and the type of the error."""
    data = reader.get_metrics_data()
    assert data is not None
    return {
        (
            metric.name,
            str((point.attributes or {})["messaging.destination.name"]),
            (point.attributes or {}).get("error.type"),  # type: ignore[misc]
        ): point.value if isinstance(point, NumberDataPoint) else point.count
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
        if isinstance(point, NumberDataPoint | HistogramDataPoint)
    }


@pytest.mark.slow
async def test_sends_and_listeners_are_measured() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    hook = MetricsHook(provider)
    outcomes: list[Exception | None] = [RetryLater(delay_level=1), None]

    async def bill(message: ReceivedMessage) -> None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    async with Cluster() as cluster:
        reading = AsyncPushConsumer(
            cluster.name_server, GROUP, bill, start_from=StartFrom.FIRST, hooks=[hook]
        )
        reading.subscribe(TOPIC)
        async with AsyncProducer(cluster.name_server, "shop", hooks=[hook]) as producer, reading:
            await producer.send(Message(TOPIC, b"1"))
            await eventually(lambda: not outcomes)
        found = points(reader)
    provider.shutdown()
    retry = "roquet.client.push.outcome.RetryLater"
    assert found == {
        ("messaging.client.sent.messages", TOPIC, None): 1,
        ("messaging.client.operation.duration", TOPIC, None): 1,
        ("messaging.client.consumed.messages", TOPIC, None): 1,
        ("messaging.client.consumed.messages", TOPIC, retry): 1,
        ("messaging.process.duration", TOPIC, None): 1,
        ("messaging.process.duration", TOPIC, retry): 1,
    }


def test_what_is_no_meter_provider_is_refused() -> None:
    with raises(BadArgument, argument="meter_provider"):
        MetricsHook("provider")  # type: ignore[arg-type]
