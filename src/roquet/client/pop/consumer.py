"""The pop consumer of 5.x: it takes messages for a time, and acknowledges each of them.

    async with AsyncPopConsumer("127.0.0.1:9876", "billing") as consumer:
        for message in await consumer.receive("orders", invisible_s=60):
            ...
            await consumer.ack(message)

Brokers keep account of what is out, so there are no queues to share and no offsets to commit: any
number of consumers of a group take from every queue. A message that is not acknowledged in its time
comes again. With `ordered`, messages of one message group (sharding key) come one after the other.
"""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypedDict, Unpack, final

from roquet.client.arguments import bad, check_count, check_number
from roquet.client.cluster.instance import ClientInstance, ToolSession
from roquet.client.cluster.name_servers import name_server_source
from roquet.client.cluster.popping import (
    INVISIBLE_S,
    INVISIBLE_S_MAX,
    RECEIVE_COUNT_MAX,
    WAIT_S,
    PopOrder,
    Popper,
)
from roquet.client.cluster.routes import MASTER_ID
from roquet.client.config import Credentials, TlsConfig
from roquet.client.errors import BadArgument, RequestRefused, TopicNotFound
from roquet.client.group.subscriptions import subscription_of
from roquet.client.lifecycle import AsyncResource, Lifecycle
from roquet.client.names import check_group, wrapped
from roquet.client.received import ReceivedMessage

WAIT_S_MAX: Final = 300.0

_WHAT: Final = "pop consumer"


class PopConsumerOptions(TypedDict, total=False):
    """Options of a pop consumer besides name server and group; see `PopConsumerConfig`."""

    namespace: str | None
    credentials: Credentials | None
    tls: TlsConfig | bool
    ordered: bool
    from_first: bool
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PopConsumerConfig:
    """Settings of a pop consumer; its members are its options.

    For example:

        PopConsumer("127.0.0.1:9876", "billing", ordered=True)
    """

    # "host:port", several of them joined by semicolons, or "http://host:port/path" of a server that
    # lists them; None takes NAMESRV_ADDR of the environment.
    name_server: str | None
    group: str
    # Names of topics and groups are relative to it.
    namespace: str | None = None
    credentials: Credentials | None = None
    # True encrypts with the defaults of `TlsConfig`.
    tls: TlsConfig | bool = False
    # Messages of one message group come in order, and none while an earlier one is out.
    ordered: bool = False
    # A group that is new takes what there is. If False, it takes what comes.
    from_first: bool = True
    # How long a broker may take to answer, besides the time it was asked to wait for messages.
    timeout_s: float = 5.0

    def __post_init__(self) -> None:
        """Raises BadArgument, and BadAddress for the name server."""
        name_server_source(self.name_server)
        check_group(self.group)
        if self.timeout_s <= 0:
            raise BadArgument(f"`timeout_s` must be more than 0, not {self.timeout_s}", "timeout_s")


@final
class AsyncPopConsumer(AsyncResource):
    """Takes messages for a time, and acknowledges each of them; needs brokers of Roquet or 5.x.

    Belongs to the event loop and the process that opened it.

    `options` are the members of `PopConsumerConfig`. Methods raise NoNameServer, TopicNotFound,
    Unreachable or RequestRefused.

    For example:

        async with AsyncPopConsumer("127.0.0.1:9876", "billing") as consumer:
            for message in await consumer.receive("orders", invisible_s=60):
                await consumer.ack(message)
    """

    def __init__(
        self, name_server: str | None, group: str, **options: Unpack[PopConsumerOptions]
    ) -> None:
        self._config = PopConsumerConfig(name_server=name_server, group=group, **options)
        self._group = wrapped(self._config.namespace, group)
        self._lifecycle = Lifecycle(
            _WHAT, lambda: ToolSession(_WHAT, self._config, lambda instance: instance)
        )
        # Which broker is asked first.
        self._turn = 0
        # Of ordered receives that may have taken something: the next one is the same attempt.
        self._attempts: dict[str, str] = {}

    async def open(self) -> None:
        """Asks no server yet. Raises NotOpen after `close`."""
        await self._lifecycle.open()

    async def close(self) -> None:
        """A second time does nothing. What is not acknowledged comes again in its time."""
        await self._lifecycle.close()

    async def receive(
        self,
        topic: str,
        count: int = RECEIVE_COUNT_MAX,
        *,
        invisible_s: float = INVISIBLE_S,
        wait_s: float = WAIT_S,
        tags: str | Iterable[str] | None = None,
        sql: str | None = None,
    ) -> list[ReceivedMessage]:
        """Up to `count` messages, which no other member gets for `invisible_s`; empty if
        there were none for `wait_s`. All consumers of a group need the same filters.

        If it is cancelled or fails, what it may have taken comes again in its time. Raises
        BadArgument, too.
        """
        check_count("count", count)
        if count > RECEIVE_COUNT_MAX:
            raise bad("count", f"at most {RECEIVE_COUNT_MAX}", count)
        check_number("invisible_s", invisible_s, 0, INVISIBLE_S_MAX)
        check_number("wait_s", wait_s, 0, WAIT_S_MAX)
        wanted = subscription_of(topic, tags, sql)
        instance = self._lifecycle.usable().instance
        wire_topic = wrapped(self._config.namespace, topic)
        brokers = await self._brokers(instance, topic, wire_topic)
        waits_s = [0.0] * len(brokers) + [wait_s / len(brokers)] * len(brokers)
        if len(brokers) == 1:
            waits_s = [wait_s]
        popper = self._popper(instance)
        for number, each_s in enumerate(waits_s):
            order = PopOrder(
                brokers[number % len(brokers)],
                wire_topic,
                wanted,
                count,
                invisible_s,
                each_s,
                from_first=self._config.from_first,
                attempt_id=self._attempt_id(wire_topic),
            )
            try:
                found = await popper.pop(order)
            except RequestRefused:
                self._attempts.pop(wire_topic, None)
                raise
            self._attempts.pop(wire_topic, None)
            if found:
                return found
        return []

    async def ack(self, message: ReceivedMessage) -> None:
        """The message does not come again, unless its time was over already. Raises BadArgument,
        too."""
        await self._popper(self._lifecycle.usable().instance).ack(message)

    async def change_invisible(self, message: ReceivedMessage, invisible_s: float) -> None:
        """The message comes again after this time from now on; 0 gives it back at once. Raises
        BadArgument, too."""
        check_number("invisible_s", invisible_s, 0, INVISIBLE_S_MAX)
        popper = self._popper(self._lifecycle.usable().instance)
        await popper.change_invisible(message, invisible_s)

    async def _brokers(self, instance: ClientInstance, topic: str, wire_topic: str) -> list[str]:
        """Names of masters that have the topic, each first in turn."""
        route = await instance.routes.existing(wire_topic)
        names = [] if route is None else sorted({queue.broker_name for queue in route.readable})
        names = [name for name in names if MASTER_ID in instance.routes.broker(name)]
        if not names:
            instance.routes.forget(wire_topic)
            raise TopicNotFound(topic, "no master has a queue of it that can be read")
        self._turn = (self._turn + 1) % len(names)
        return names[self._turn :] + names[: self._turn]

    def _attempt_id(self, wire_topic: str) -> str | None:
        if not self._config.ordered:
            return None
        return self._attempts.setdefault(wire_topic, uuid.uuid4().hex)

    def _popper(self, instance: ClientInstance) -> Popper:
        config = self._config
        return Popper(
            instance.requests, instance.routes, self._group, config.namespace, config.timeout_s
        )
