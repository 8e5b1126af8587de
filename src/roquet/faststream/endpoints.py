"""Subscribers and publishers: what FastStream's decorators make."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from faststream._internal.broker.registrator import Registrator
from faststream._internal.configs import (
    BrokerConfig,
    PublisherSpecificationConfig,
    PublisherUsecaseConfig,
    SubscriberSpecificationConfig,
    SubscriberUsecaseConfig,
)
from faststream._internal.constants import EMPTY
from faststream._internal.endpoint.publisher import PublisherSpecification, PublisherUsecase
from faststream._internal.endpoint.publisher.fake import FakePublisher
from faststream._internal.endpoint.subscriber import SubscriberSpecification, SubscriberUsecase
from faststream._internal.endpoint.subscriber.call_item import CallsCollection
from faststream.exceptions import FeatureNotSupportedException, SetupError
from faststream.message import StreamMessage
from faststream.middlewares import AckPolicy
from faststream.response.publish_type import PublishType
from faststream.response.response import PublishCommand
from faststream.specification.asyncapi.utils import resolve_payloads
from faststream.specification.schema import (
    Message as MessageSpec,
    Operation,
    PublisherSpec,
    SubscriberSpec,
)

from roquet.client.producer.outgoing import Delay
from roquet.client.push.consumer import AsyncPushConsumer
from roquet.client.received import ReceivedMessage
from roquet.faststream.messages import Delivered, RocketCommand, decode, parse_message


@dataclass(kw_only=True)
class RocketConfig(BrokerConfig):
    """Of a broker or a router."""

    name_server: str | None = None
    # What all clients have in common: credentials, TLS, namespace.
    client_options: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True)
class SubscriberConfig(SubscriberUsecaseConfig):
    topic: str
    group: str
    tags: str | Iterable[str] | None
    sql: str | None
    consumer_options: dict[str, Any]

    @property
    def ack_policy(self) -> AckPolicy:
        """Raises SetupError for one that RocketMQ cannot keep."""
        policy = self._ack_policy
        if policy is EMPTY:
            policy = self._outer_config.ack_policy
        if policy is EMPTY:
            return AckPolicy.NACK_ON_ERROR
        if policy is AckPolicy.ACK_FIRST:
            raise SetupError(
                "RocketMQ acknowledges a message when its handler has ended, so ACK_FIRST is not "
                "possible: use ACK, NACK_ON_ERROR, REJECT_ON_ERROR or MANUAL"
            )
        return policy


@dataclass(kw_only=True)
class TopicSubscriberSpecificationConfig(SubscriberSpecificationConfig):
    topic: str


@dataclass(kw_only=True)
class TopicPublisherSpecificationConfig(PublisherSpecificationConfig):
    topic: str


class RocketSubscriberSpecification(SubscriberSpecification[Any, Any]):
    """Its part of the AsyncAPI document."""

    @property
    def channel_labels(self) -> list[str]:
        return [f"{self._outer_config.prefix}{self.config.topic}"]

    def get_schema(self) -> dict[str, SubscriberSpec]:
        [topic] = self.channel_labels
        name = self._channel_key(topic, split=False)
        message = MessageSpec(
            title=f"{name}:Message", payload=resolve_payloads(self.get_payloads())
        )
        operation = Operation(message=message, bindings=None)
        return {
            name: SubscriberSpec(
                address=topic, description=self.description, operation=operation, bindings=None
            )
        }


class RocketPublisherSpecification(PublisherSpecification[Any, Any]):
    """Its part of the AsyncAPI document."""

    @property
    def topic(self) -> str:
        return f"{self._outer_config.prefix}{self.config.topic}"

    @property
    def name(self) -> str:
        return self.config.title_ or f"{self.topic}:Publisher"

    def get_schema(self) -> dict[str, PublisherSpec]:
        payload = resolve_payloads(self.get_payloads(), "Publisher")
        message = MessageSpec(title=f"{self.name}:Message", payload=payload)
        operation = Operation(message=message, bindings=None)
        return {
            self.name: PublisherSpec(
                address=self.topic,
                description=self.config.description_,
                operation=operation,
                bindings=None,
            )
        }


class RocketSubscriber(SubscriberUsecase[Delivered]):
    """A push consumer, whose listener is FastStream."""

    # A `RocketConfig`, composed with those of routers.
    _outer_config: Any

    def __init__(
        self,
        config: SubscriberConfig,
        specification: RocketSubscriberSpecification,
        calls: CallsCollection[Delivered],
    ) -> None:
        config.parser = parse_message
        config.decoder = decode
        super().__init__(config, specification, calls)
        self._settings = config
        self._consumer: AsyncPushConsumer | None = None

    @property
    def topic(self) -> str:
        return f"{self._outer_config.prefix}{self._settings.topic}"

    @property
    def group(self) -> str:
        return self._settings.group

    async def start(self) -> None:
        await super().start()
        if self.calls:
            config = self._outer_config
            options = config.client_options | self._settings.consumer_options
            consumer = AsyncPushConsumer(config.name_server, self.group, self._listen, **options)
            consumer.subscribe(self.topic, tags=self._settings.tags, sql=self._settings.sql)
            self._consumer = consumer
            # Before messages arrive: they are not consumed otherwise.
            self._post_start()
            await consumer.open()
        self._post_start()

    async def stop(self) -> None:
        await super().stop()
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.close()

    async def _listen(self, message: ReceivedMessage) -> None:
        delivered = Delivered(message)
        await self.consume(delivered)
        delivered.check()

    async def get_one(self, *, timeout: float = 5.0) -> None:  # noqa: ARG002, ASYNC109
        raise FeatureNotSupportedException("use a handler, or a PullConsumer of roquet")

    def __aiter__(self) -> Any:
        raise FeatureNotSupportedException("use a handler, or a PushConsumer of roquet")

    def _make_response_publisher(self, message: StreamMessage[Any]) -> Iterable["ReplyPublisher"]:
        return (ReplyPublisher(self._outer_config.producer, message),)

    def get_log_context(self, message: StreamMessage[Any] | None) -> dict[str, str]:
        return {
            "topic": self.topic,
            "group": self.group,
            "message_id": getattr(message, "message_id", ""),
        }


class ReplyPublisher(FakePublisher):
    """Answers a request, or sends what a handler returns to the topic that its message names."""

    def __init__(self, producer: Any, message: StreamMessage[Any]) -> None:
        super().__init__(producer=producer)
        self._message = message

    def patch_command(self, cmd: PublishCommand) -> RocketCommand:
        command = RocketCommand.from_cmd(super().patch_command(cmd))
        command.destination = self._message.reply_to
        command.request = self._message.raw_message
        return command


class RocketPublisher(PublisherUsecase):
    """Sends what handlers return, and what a program publishes, to a topic."""

    def __init__(
        self,
        config: PublisherUsecaseConfig,
        specification: RocketPublisherSpecification,
        defaults: dict[str, Any],
    ) -> None:
        super().__init__(config, specification)
        self._topic_specification = specification
        self._defaults = defaults

    @property
    def topic(self) -> str:
        return self._topic_specification.topic

    async def publish(
        self,
        message: Any,
        topic: str = "",
        *,
        tags: str | None = None,
        keys: Sequence[str] = (),
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        delay: Delay | None = None,
    ) -> Any:
        """Returns the receipt. Raises as `AsyncProducer.send` does."""
        command = RocketCommand(
            message,
            destination=topic or self.topic,
            tags=tags or self._defaults["tags"],
            keys=tuple(keys),
            headers=self._defaults["headers"] | (headers or {}),
            correlation_id=correlation_id or self._outer_config.id_generator(),
            reply_to=reply_to,
            delay=delay,
            _publish_type=PublishType.PUBLISH,
        )
        return await self._basic_publish(
            command, producer=self._outer_config.producer, _extra_middlewares=()
        )

    async def _publish(self, cmd: PublishCommand, *, _extra_middlewares: Iterable[Any]) -> None:
        command = RocketCommand.from_cmd(cmd)
        command.destination = self.topic
        command.tags = command.tags or self._defaults["tags"]
        command.add_headers(self._defaults["headers"], override=False)
        await self._basic_publish(
            command,
            producer=self._outer_config.producer,
            _extra_middlewares=_extra_middlewares,
        )

    async def request(self, *_words: Any, **_options: Any) -> Any:
        raise FeatureNotSupportedException("use `request` of the broker")


class RocketRegistrator(Registrator[Delivered, Any]):
    """What brokers and routers have in common: subscribers and publishers of topics."""

    def subscriber(  # type: ignore[override]  # noqa: PLR0913
        self,
        topic: str,
        *,
        group: str,
        tags: str | Iterable[str] | None = None,
        sql: str | None = None,
        ack_policy: AckPolicy = EMPTY,
        no_reply: bool = False,
        dependencies: Sequence[Any] = (),
        parser: Any = None,
        decoder: Any = None,
        codec: Any = None,
        title: str | None = None,
        description: str | None = None,
        include_in_schema: bool = True,
        persistent: bool = True,
        **consumer_options: Any,
    ) -> RocketSubscriber:
        """Messages of a topic for one group: those with tags, those that match SQL, or all.

        `consumer_options` are the members of `PushConsumerConfig`, such as `start_from`,
        `concurrency` and `retry_count_max`. No two subscribers may share a group: RocketMQ wants
        the same subscriptions of all its members.
        """
        outer: Any = self.config
        config = SubscriberConfig(
            _outer_config=outer,
            _ack_policy=ack_policy,
            no_reply=no_reply,
            topic=topic,
            group=group,
            tags=tags,
            sql=sql,
            consumer_options=consumer_options,
        )
        calls: CallsCollection[Delivered] = CallsCollection()
        specification = RocketSubscriberSpecification(
            self.config,
            TopicSubscriberSpecificationConfig(
                topic=topic,
                title_=title,
                description_=description,
                include_in_schema=include_in_schema,
            ),
            calls,
        )
        subscriber = RocketSubscriber(config, specification, calls)
        super().subscriber(subscriber, persistent=persistent)
        return subscriber.add_call(
            parser_=parser, decoder_=decoder, dependencies_=dependencies, codec_=codec
        )

    def publisher(  # type: ignore[override]
        self,
        topic: str,
        *,
        tags: str | None = None,
        headers: dict[str, Any] | None = None,
        title: str | None = None,
        description: str | None = None,
        schema: Any = None,
        include_in_schema: bool = True,
        persistent: bool = True,
    ) -> RocketPublisher:
        """Sends to a topic what its handlers return."""
        specification = RocketPublisherSpecification(
            self.config,
            TopicPublisherSpecificationConfig(
                topic=topic,
                schema_=schema,
                title_=title,
                description_=description,
                include_in_schema=include_in_schema,
            ),
        )
        outer: Any = self.config
        publisher = RocketPublisher(
            PublisherUsecaseConfig(_outer_config=outer),
            specification,
            {"tags": tags, "headers": headers or {}},
        )
        super().publisher(publisher, persistent=persistent)
        return publisher
