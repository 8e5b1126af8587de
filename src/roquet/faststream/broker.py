"""The broker of FastStream: a producer, and the consumers of its subscribers."""

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Final

from fast_depends import dependency_provider
from faststream._internal.broker import BrokerUsecase
from faststream._internal.broker.router import BrokerRouter, SubscriberRoute
from faststream._internal.constants import EMPTY
from faststream._internal.context.repository import ContextRepo
from faststream._internal.di import FastDependsConfig
from faststream._internal.logger import DefaultLoggerStorage, make_logger_state
from faststream._internal.logger.logging import get_broker_logger
from faststream._internal.parser import DefaultCodec
from faststream._internal.producer import ProducerProto
from faststream.exceptions import FeatureNotSupportedException, IncorrectState, SetupError
from faststream.middlewares import AckPolicy
from faststream.response.publish_type import PublishType
from faststream.specification.schema import BrokerSpec

from roquet.client.config import Credentials
from roquet.client.errors import ClientError
from roquet.client.producer.outgoing import Delay
from roquet.client.producer.producer import AsyncProducer
from roquet.client.producer.request_reply import reply_to as reply_of
from roquet.client.reader.reader import AsyncTopicReader
from roquet.faststream.endpoints import RocketConfig, RocketRegistrator, RocketSubscriber
from roquet.faststream.messages import Delivered, RocketCommand, decode, parse_message
from roquet.protocol.messages.message import Property

REQUEST_TIMEOUT_S: Final = 3.0
PRODUCER_GROUP: Final = "faststream"
_ID_WIDTH: Final = 10


class RocketProducer(ProducerProto[RocketCommand]):
    """Sends commands as messages."""

    def __init__(self) -> None:
        self._parser = parse_message
        self._decoder = decode
        self.codec: Any = DefaultCodec()
        self.serializer: Any = None
        self.producer: AsyncProducer | None = None

    async def publish(self, cmd: RocketCommand) -> Any:
        command = RocketCommand.from_cmd(cmd)
        body, content_type = await self.codec.encode(command.body, serializer=self.serializer)
        request = command.request
        if request is not None and Property.REPLY_TO_CLIENT in request.properties:
            message = reply_of(request, body, properties=command.properties(content_type))
            return await self._connected().send(message)
        return await self._connected().send(
            command.message(body, content_type), delay=command.delay
        )

    async def request(self, cmd: RocketCommand) -> Delivered:
        body, content_type = await self.codec.encode(cmd.body, serializer=self.serializer)
        reply = await self._connected().request(
            cmd.message(body, content_type), timeout_s=cmd.timeout_s or REQUEST_TIMEOUT_S
        )
        return Delivered(reply)

    async def publish_batch(self, cmd: RocketCommand) -> Any:  # noqa: ARG002
        raise FeatureNotSupportedException("publish messages one by one: they share requests")

    def _connected(self) -> AsyncProducer:
        if self.producer is None:
            raise IncorrectState("the broker is not connected: `await broker.connect()` first")
        return self.producer


class RocketBroker(RocketRegistrator, BrokerUsecase[Delivered, AsyncProducer, RocketConfig]):
    """A FastStream broker for RocketMQ.

    `name_server` is "host:port", several joined by semicolons; None takes NAMESRV_ADDR of the
    environment. Further options are those of any FastStream broker.

    For example:

        broker = RocketBroker("127.0.0.1:9876")

        @broker.subscriber("orders", group="billing")
        async def bill(order: Order) -> None: ...
    """

    def __init__(  # noqa: PLR0913  FastStream's brokers have these options.
        self,
        name_server: str | None = None,
        *,
        credentials: Credentials | None = None,
        namespace: str | None = None,
        tls: Any = False,
        graceful_timeout: float | None = 15.0,
        ack_policy: AckPolicy = EMPTY,
        decoder: Any = None,
        parser: Any = None,
        codec: Any = None,
        dependencies: Sequence[Any] = (),
        middlewares: Sequence[Any] = (),
        routers: Iterable[RocketRegistrator] = (),
        description: str | None = None,
        tags: Iterable[Any] = (),
        logger: Any = EMPTY,
        log_level: int = logging.INFO,
        apply_types: bool = True,
        serializer: Any = EMPTY,
        provider: Any = None,
        context: ContextRepo | None = None,
    ) -> None:
        options: dict[str, Any] = {
            "credentials": credentials,
            "namespace": namespace,
            "tls": tls,
        }
        self._sender = RocketProducer()
        super().__init__(
            routers=routers,
            config=RocketConfig(
                name_server=name_server,
                client_options=options,
                producer=self._sender,
                broker_middlewares=middlewares,
                broker_parser=parser,
                broker_decoder=decoder,
                broker_codec=codec,
                broker_dependencies=dependencies,
                graceful_timeout=graceful_timeout,
                ack_policy=ack_policy,
                logger=make_logger_state(
                    logger=logger, log_level=log_level, default_storage_cls=LoggerStorage
                ),
                fd_config=FastDependsConfig(
                    use_fastdepends=apply_types,
                    serializer=serializer,
                    provider=provider or dependency_provider,
                    context=context or ContextRepo(),
                ),
                extra_context={"broker": self},
            ),
            specification=BrokerSpec(
                description=description,
                url=[name_server or "NAMESRV_ADDR"],
                protocol="rocketmq",
                protocol_version="4.9",
                security=None,
                tags=tags,
            ),
        )
        self._name_server = name_server
        self._options = options

    async def _connect(self) -> AsyncProducer:
        producer = AsyncProducer(self._name_server, PRODUCER_GROUP, **self._options)
        await producer.open()
        sender = self._sender
        sender.producer = producer
        sender.codec = self.config.broker_codec or DefaultCodec()
        sender.serializer = self.config.fd_config._serializer  # noqa: SLF001
        return producer

    async def start(self) -> None:
        """Raises SetupError when subscribers share a group."""
        check_groups(self.subscribers)
        await self.connect()
        await super().start()

    async def stop(
        self,
        exc_type: type[BaseException] | None = None,
        exc_val: BaseException | None = None,
        exc_tb: TracebackType | None = None,
    ) -> None:
        await super().stop(exc_type, exc_val, exc_tb)
        producer, self._connection = self._connection, None
        self._sender.producer = None
        if producer is not None:
            await producer.close()

    async def publish(
        self,
        message: Any,
        topic: str,
        *,
        tags: str | None = None,
        keys: Sequence[str] = (),
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        delay: Delay | None = None,
    ) -> Any:
        """Sends one message, and returns its receipt. Raises as `AsyncProducer.send` does."""
        command = RocketCommand(
            message,
            destination=topic,
            tags=tags,
            keys=tuple(keys),
            headers=headers,
            correlation_id=correlation_id or self.config.id_generator(),
            reply_to=reply_to,
            delay=delay,
            _publish_type=PublishType.PUBLISH,
        )
        return await self._basic_publish(command, producer=self.config.producer)

    async def request(  # type: ignore[override]
        self,
        message: Any,
        topic: str,
        *,
        tags: str | None = None,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        timeout: float = REQUEST_TIMEOUT_S,  # noqa: ASYNC109
    ) -> Any:
        """The message that a subscriber's handler returns for it. Raises NoReply."""
        command = RocketCommand(
            message,
            destination=topic,
            tags=tags,
            headers=headers,
            correlation_id=correlation_id or self.config.id_generator(),
            timeout_s=timeout,
            _publish_type=PublishType.REQUEST,
        )
        return await self._basic_request(command, producer=self.config.producer)

    async def ping(self, timeout: float | None) -> bool:  # noqa: ASYNC109
        """Whether a name server answers."""
        options = self._options | {"timeout_s": timeout or REQUEST_TIMEOUT_S}
        try:
            async with AsyncTopicReader(self._name_server, **options) as reader:
                await reader.topics()
        except ClientError:
            return False
        return True


class RocketRouter(RocketRegistrator, BrokerRouter[Delivered, RocketConfig]):
    """Subscribers and publishers that a broker includes; `prefix` goes in front of topics."""

    def __init__(  # noqa: PLR0913  FastStream's routers have these options.
        self,
        prefix: str = "",
        handlers: Iterable[SubscriberRoute] = (),
        *,
        dependencies: Sequence[Any] = (),
        middlewares: Sequence[Any] = (),
        routers: Iterable[RocketRegistrator] = (),
        parser: Any = None,
        decoder: Any = None,
        include_in_schema: bool | None = None,
        ack_policy: AckPolicy = EMPTY,
    ) -> None:
        super().__init__(
            handlers=handlers,
            config=RocketConfig(
                prefix=prefix,
                ack_policy=ack_policy,
                broker_dependencies=dependencies,
                broker_middlewares=middlewares,
                broker_parser=parser,
                broker_decoder=decoder,
                include_in_schema=include_in_schema,
            ),
            routers=routers,
        )


def check_groups(subscribers: Iterable[Any]) -> None:
    """Raises SetupError."""
    counts = Counter(each.group for each in subscribers if isinstance(each, RocketSubscriber))
    if shared := [group for group, count in counts.items() if count > 1]:
        raise SetupError(
            f"{counts[shared[0]]} subscribers have the group {shared[0]!r}: RocketMQ wants the "
            "same subscriptions of all members of a group, so give each subscriber its own"
        )


class LoggerStorage(DefaultLoggerStorage):
    """How FastStream logs the events of handlers."""

    def __init__(self) -> None:
        super().__init__()
        self._topic_width = len("topic")

    def register_subscriber(self, params: dict[str, Any]) -> None:
        self._topic_width = max(self._topic_width, len(params.get("topic", "")))

    def get_logger(self, *, context: ContextRepo) -> Any:
        logger = self._get_logger_ref()
        if logger is None:
            logger = get_broker_logger(
                name="rocketmq",
                default_context={"topic": "", "group": ""},
                message_id_ln=_ID_WIDTH,
                fmt=(
                    f"%(asctime)s %(levelname)-8s - %(topic)-{self._topic_width}s | %(group)s | "
                    f"%(message_id)-{_ID_WIDTH}s - %(message)s"
                ),
                context=context,
                log_level=self.logger_log_level,
            )
            self._logger_ref.add(logger)
        return logger
