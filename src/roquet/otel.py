"""Spans of OpenTelemetry for producers and push consumers: one trace from sender to receiver; and
metrics, by `MetricsHook`.

    tracing = TracingHook()
    producer = Producer(..., hooks=[tracing])
    consumer = PushConsumer(..., hooks=[tracing])

By the conventions for messaging, of which each span has the attributes:

    create TOPIC    PRODUCER   for each message, when `send` is called; messages carry its context
                               in their properties (`traceparent` and others, as the configured
                               propagator writes it)
    send TOPIC      CLIENT     for each request, with its retries; belongs to the one message that
                               is in it, or is linked to all of them
    process TOPIC   CONSUMER   for each call of a listener, which runs inside of it; belongs to the
                               message, or is linked to all of them if they come as a list

For other ways to read, a `PullConsumer` or `async for`, start spans with `context_of`. Needs the
extra `otel`, and is the only module that imports OpenTelemetry.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, final

from opentelemetry import metrics, propagate, trace
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
from opentelemetry.util.types import AttributeValue

from roquet.client.arguments import bad, timestamp_ms
from roquet.client.hooks import ConsumeHook, Consuming, MessageKind, SendHook, Sending
from roquet.client.push.outcome import DeadLetter, RetryLater
from roquet.client.received import ReceivedMessage
from roquet.net.addresses import split_address
from roquet.net.errors import BadAddress
from roquet.protocol.messages.message import Message, Property

_INSTRUMENTATION: Final = "roquet"
_SCHEMA: Final = "https://opentelemetry.io/schemas/1.37.0"
_KINDS: Final = {
    MessageKind.NORMAL: "normal",
    MessageKind.HALF: "transaction",
    MessageKind.DELAYED: "delay",
}

_Attributes = dict[str, AttributeValue]


@final
class TracingHook(SendHook, ConsumeHook):
    """One for any number of producers and consumers.

    Without `tracer_provider` it uses the global one.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        if tracer_provider is not None and not isinstance(tracer_provider, TracerProvider):
            raise bad("tracer_provider", "a TracerProvider", tracer_provider)
        self._tracer: Tracer = trace.get_tracer(
            _INSTRUMENTATION, tracer_provider=tracer_provider, schema_url=_SCHEMA
        )

    def added_properties(self, message: Message) -> Mapping[str, str]:
        span = self._tracer.start_span(
            f"create {message.topic}",
            kind=SpanKind.PRODUCER,
            attributes=_operation("create", message.topic) | _message_attributes(message),
        )
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(span))
        span.end()
        return carrier

    def after_send(self, sending: Sending) -> None:
        """Recorded at the end: a send that another hook forbids leaves no open span."""
        messages = sending.messages
        begin_ns = timestamp_ms(sending.begin) * 1_000_000
        span = self._tracer.start_span(
            f"send {sending.topic}",
            context=_context(messages[0].properties) if len(messages) == 1 else None,
            kind=SpanKind.CLIENT,
            attributes=_sending_attributes(sending),
            links=_links([each.properties for each in messages]),
            start_time=begin_ns,
        )
        if sending.error is not None:
            _fail(span, sending.error)
        span.end(begin_ns + round(sending.duration_s * 1e9))

    @contextmanager
    def around_listener(self, consuming: Consuming) -> Iterator[None]:
        messages = consuming.messages
        topic = messages[0].topic
        with self._tracer.start_as_current_span(
            f"process {topic}",
            context=context_of(messages[0]) if len(messages) == 1 else None,
            kind=SpanKind.CONSUMER,
            attributes=_consuming_attributes(consuming),
            links=_links([each.properties for each in messages]),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except BaseException as error:
                _fail(span, error)
                raise


@final
class MetricsHook(SendHook, ConsumeHook):
    """Metrics by the conventions for messaging: one for any number of producers and consumers.

        messaging.client.sent.messages         counter    messages of sends, by how they ended
        messaging.client.operation.duration    histogram  seconds of sends
        messaging.client.consumed.messages     counter    messages of listeners, by how they ended
        messaging.process.duration             histogram  seconds of calls of listeners

    Without `meter_provider` it uses the global one.
    """

    def __init__(self, meter_provider: MeterProvider | None = None) -> None:
        if meter_provider is not None and not isinstance(meter_provider, MeterProvider):
            raise bad("meter_provider", "a MeterProvider", meter_provider)
        meter = metrics.get_meter(
            _INSTRUMENTATION, meter_provider=meter_provider, schema_url=_SCHEMA
        )
        self._sent = meter.create_counter(
            "messaging.client.sent.messages", "{message}", "Messages that a producer sent"
        )
        self._send_duration = meter.create_histogram(
            "messaging.client.operation.duration", "s", "Duration of sends"
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Messages that listeners got"
        )
        self._process_duration = meter.create_histogram(
            "messaging.process.duration", "s", "Duration of calls of listeners"
        )

    def after_send(self, sending: Sending) -> None:
        attributes = _operation("send", sending.topic) | _place(sending.broker_address)
        if sending.error is not None:
            attributes["error.type"] = _error_type(sending.error)
        self._sent.add(len(sending.messages), attributes)
        self._send_duration.record(sending.duration_s, attributes)

    def after_consume(self, consuming: Consuming) -> None:
        attributes = _operation("process", consuming.messages[0].topic)
        attributes["messaging.consumer.group.name"] = consuming.group
        if consuming.error is not None:
            attributes["error.type"] = _error_type(consuming.error)
        self._consumed.add(len(consuming.messages), attributes)
        self._process_duration.record(consuming.duration_s, attributes)


def context_of(message: ReceivedMessage) -> Context:
    """The context in which a message was sent; empty if its sender was not traced."""
    return _context(message.properties)


def _context(properties: Mapping[str, str]) -> Context:
    return propagate.extract(properties, Context())


def _links(all_properties: Sequence[Mapping[str, str]]) -> list[Link]:
    """A single message is the parent, not a link."""
    if len(all_properties) == 1:
        return []
    spans = (trace.get_current_span(_context(properties)) for properties in all_properties)
    contexts = (span.get_span_context() for span in spans)
    return [Link(context) for context in contexts if context.is_valid]


def _operation(name: str, topic: str) -> _Attributes:
    return {
        "messaging.system": "rocketmq",
        "messaging.operation.name": name,
        "messaging.operation.type": name,
        "messaging.destination.name": topic,
    }


def _message_attributes(message: Message | ReceivedMessage) -> _Attributes:
    found: _Attributes = {"messaging.message.body.size": len(message.body)}
    if message.tags:
        found["messaging.rocketmq.message.tag"] = message.tags
    if message.keys:
        found["messaging.rocketmq.message.keys"] = list(message.keys)
    return found


def _sending_attributes(sending: Sending) -> _Attributes:
    found = _operation("send", sending.topic) | _place(sending.broker_address)
    found["messaging.rocketmq.message.type"] = _KINDS.get(sending.kind, "normal")
    if len(sending.messages) == 1:
        found["messaging.message.id"] = sending.message_ids[0]
        found |= _message_attributes(sending.messages[0])
    else:
        found["messaging.batch.message_count"] = len(sending.messages)
    if sending.receipts:
        found["messaging.destination.partition.id"] = str(sending.receipts[0].queue.queue_id)
    return found


def _consuming_attributes(consuming: Consuming) -> _Attributes:
    messages = consuming.messages
    found = _operation("process", messages[0].topic)
    found["messaging.consumer.group.name"] = consuming.group
    found["messaging.destination.partition.id"] = str(consuming.queue.queue_id)
    if len(messages) == 1:
        found["messaging.message.id"] = messages[0].message_id
        found |= _message_attributes(messages[0])
        if messages[0].retry_count:
            found["messaging.rocketmq.message.retry_count"] = messages[0].retry_count
        if delay_level := messages[0].properties.get(Property.DELAY):
            found["messaging.rocketmq.message.delay_time_level"] = int(delay_level)
    else:
        found["messaging.batch.message_count"] = len(messages)
    return found


def _place(address: str | None) -> _Attributes:
    try:
        host, port = split_address(address or "")
    except BadAddress:
        return {}
    return {"server.address": host, "server.port": port}


def _fail(span: Span, error: BaseException) -> None:
    """`RetryLater` and `DeadLetter` are outcomes, not exceptions to record."""
    span.set_attribute("error.type", _error_type(error))
    span.set_status(Status(StatusCode.ERROR, str(error)))
    if not isinstance(error, RetryLater | DeadLetter):
        span.record_exception(error)


def _error_type(error: BaseException) -> str:
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}"
