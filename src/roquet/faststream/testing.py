"""Tests of handlers without servers: what is published goes straight to subscribers."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

from faststream._internal.testing.broker import TestBroker, change_producer
from faststream.exceptions import SubscriberNotFound

from roquet.faststream.broker import RocketBroker, RocketProducer
from roquet.faststream.endpoints import RocketPublisher, RocketSubscriber
from roquet.faststream.messages import Delivered, RocketCommand
from roquet.protocol.messages.message import Message
from roquet.testing.messages import received


class TestRocketBroker(TestBroker[RocketBroker, Any], broker=RocketBroker):
    """`async with TestRocketBroker(broker)`: handlers run in the test, and their errors with them.

    With `with_real=True` it uses the servers.
    """

    def create_publisher_fake_subscriber(
        self, broker: RocketBroker, publisher: RocketPublisher
    ) -> tuple[RocketSubscriber, bool]:
        for subscriber in _subscribers(self.brokers):
            if subscriber.topic == publisher.topic:
                return subscriber, True
        group = f"test-{publisher.topic}"
        return broker.subscriber(publisher.topic, group=group, persistent=False), False

    @contextmanager
    def _patch_producer(self, broker: RocketBroker) -> Generator[None]:
        with change_producer(broker.config.broker_config, DirectProducer(broker, self.brokers)):
            yield

    async def _fake_connect(self, broker: RocketBroker, *_args: Any, **_options: Any) -> None:
        """There is nothing to connect to."""


class DirectProducer(RocketProducer):
    """Calls the handlers of a topic instead of sending."""

    def __init__(self, broker: RocketBroker, brokers: Iterable[RocketBroker]) -> None:
        super().__init__()
        self._brokers = brokers
        self.codec = broker.config.broker_codec or self.codec
        self.serializer = broker.config.fd_config._serializer  # noqa: SLF001

    async def publish(self, cmd: RocketCommand) -> None:
        command = RocketCommand.from_cmd(cmd)
        if not command.destination:
            return
        message = await self._message(command)
        for subscriber in _subscribers(self._brokers):
            if subscriber.topic == command.destination:
                await subscriber.process_message(Delivered(received(message)))

    async def request(self, cmd: RocketCommand) -> Delivered:
        message = await self._message(cmd)
        for subscriber in _subscribers(self._brokers):
            if subscriber.topic == cmd.destination:
                result = await subscriber.process_message(Delivered(received(message)))
                answer = RocketCommand.from_cmd(result.as_publish_command())
                answer.destination = cmd.destination
                return Delivered(received(await self._message(answer)))
        raise SubscriberNotFound

    async def _message(self, command: RocketCommand) -> Message:
        body, content_type = await self.codec.encode(command.body, serializer=self.serializer)
        return command.message(body, content_type)


def _subscribers(brokers: Iterable[RocketBroker]) -> list[RocketSubscriber]:
    return [
        each
        for broker in brokers
        for each in broker.subscribers
        if isinstance(each, RocketSubscriber)
    ]
