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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypedDict, TypeVar, Unpack, final

from roquet.client.arguments import bad, check_count, check_number
from roquet.client.cluster.instance import ClientInstance, ToolSession
from roquet.client.cluster.name_servers import name_server_source
from roquet.client.cluster.routes import MASTER_ID
from roquet.client.config import Credentials, TlsConfig
from roquet.client.errors import BadArgument, RequestRefused, TopicNotFound, Unreachable
from roquet.client.group.subscriptions import subscription_of
from roquet.client.lifecycle import AsyncResource, Lifecycle
from roquet.client.names import check_group, wrapped
from roquet.client.received import PopReceipt, ReceivedMessage, received_of
from roquet.net.errors import NetError
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.errors import ProtocolError
from roquet.protocol.fields import Header, read_header
from roquet.protocol.headers.pop import (
    AckMessageHeader,
    ChangeInvisibleTimeHeader,
    ChangeInvisibleTimeReplyHeader,
    PopMessageHeader,
    PopMessageReplyHeader,
)
from roquet.protocol.messages.message import Property
from roquet.protocol.names import pop_retry_topic
from roquet.protocol.subscription import Subscription

RECEIVE_COUNT_MAX: Final = 32
INVISIBLE_S: Final = 60.0
INVISIBLE_S_MAX: Final = 12 * 3_600.0
WAIT_S: Final = 15.0
WAIT_S_MAX: Final = 300.0

_WHAT: Final = "pop consumer"
_ANY_QUEUE: Final = -1
_FROM_FIRST: Final = 0
_FROM_LAST: Final = 1
_ITEM_COUNT: Final = 8

H = TypeVar("H", bound=Header)


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
        for number, each_s in enumerate(waits_s):
            name = brokers[number % len(brokers)]
            header = self._pop_header(wire_topic, count, invisible_s, each_s, wanted)
            reply = await self._ask(instance, name, RequestCode.POP_MESSAGE, header, each_s)
            self._attempts.pop(wire_topic, None)
            if reply.code == ResponseCode.SUCCESS:
                return self._messages(reply, name, wire_topic)
            if reply.code != ResponseCode.POLLING_TIMEOUT:
                raise RequestRefused(name, reply.code, reply.remark)
        return []

    async def ack(self, message: ReceivedMessage) -> None:
        """The message does not come again, unless its time was over already. Raises BadArgument,
        too."""
        receipt = _receipt_of(message)
        header = AckMessageHeader(
            consumer_group=self._group,
            topic=receipt.topic,
            queue_id=receipt.queue_id,
            extra_info=receipt.text,
            offset=receipt.offset,
            broker_name=receipt.broker_name,
        )
        await self._answer(receipt, RequestCode.ACK_MESSAGE, header)

    async def change_invisible(self, message: ReceivedMessage, invisible_s: float) -> None:
        """The message comes again after this time from now on; 0 gives it back at once. Raises
        BadArgument, too."""
        check_number("invisible_s", invisible_s, 0, INVISIBLE_S_MAX)
        receipt = _receipt_of(message)
        header = ChangeInvisibleTimeHeader(
            consumer_group=self._group,
            topic=receipt.topic,
            queue_id=receipt.queue_id,
            extra_info=receipt.text,
            offset=receipt.offset,
            invisible_time=_ms(invisible_s),
            broker_name=receipt.broker_name,
        )
        reply = await self._answer(receipt, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
        changed = _read(ChangeInvisibleTimeReplyHeader, reply, receipt.broker_name)
        kind = receipt.text.split(" ")[4]
        message.pop_receipt = receipt._replace(
            text=f"{receipt.offset} {changed.pop_time} {changed.invisible_time} "
            f"{changed.revive_qid} {kind} {receipt.broker_name} {receipt.queue_id} {receipt.offset}"
        )

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

    def _pop_header(
        self, wire_topic: str, count: int, invisible_s: float, wait_s: float, wanted: Subscription
    ) -> PopMessageHeader:
        ordered = self._config.ordered
        return PopMessageHeader(
            consumer_group=self._group,
            topic=wire_topic,
            queue_id=_ANY_QUEUE,
            max_msg_nums=count,
            invisible_time=_ms(invisible_s),
            poll_time=_ms(wait_s),
            born_time=0,  # By the broker's clock, which may differ from ours.
            init_mode=_FROM_FIRST if self._config.from_first else _FROM_LAST,
            exp_type=wanted.expression_type,
            exp=wanted.expression,
            order=ordered,
            attempt_id=(
                self._attempts.setdefault(wire_topic, uuid.uuid4().hex) if ordered else None
            ),
        )

    async def _answer(self, receipt: PopReceipt, code: RequestCode, header: Header) -> Command:
        instance = self._lifecycle.usable().instance
        reply = await self._ask(instance, receipt.broker_name, code, header, 0)
        if reply.code != ResponseCode.SUCCESS:
            raise RequestRefused(receipt.broker_name, reply.code, reply.remark)
        return reply

    async def _ask(
        self, instance: ClientInstance, name: str, code: RequestCode, header: Header, wait_s: float
    ) -> Command:
        address = instance.routes.broker(name).get(MASTER_ID)
        if address is None:
            raise Unreachable(name, "name servers list no master for it")
        try:
            return await instance.requests.call(
                address, code, header, wait_s + self._config.timeout_s
            )
        except NetError as error:
            raise Unreachable(name, str(error)) from error

    def _messages(self, reply: Command, name: str, wire_topic: str) -> list[ReceivedMessage]:
        header = _read(PopMessageReplyHeader, reply, name)
        starts = _by_queue(header.start_offset_info)
        times = _by_queue(header.order_count_info)
        messages = []
        for record in _records(reply.body):
            message = received_of(record, name, self._config.namespace)
            queue_id, offset = message.record.queue_id, message.record.queue_offset
            # The broker gives retries theirs, and the names of the topic that was asked for.
            text = message.properties.get(Property.POP_CHECK_POINT) or (
                f"{starts.get(f'0 {queue_id}', offset)} {header.pop_time} {header.invisible_time}"
                f" {header.revive_qid} 0 {name} {queue_id} {offset}"
            )
            topic = self._real_topic(text, wire_topic)
            message.pop_receipt = PopReceipt(text, name, topic, queue_id, offset)
            message.local_retry_count = times.get(f"0 qo{queue_id}%{offset}", 0)
            messages.append(message)
        return messages

    def _real_topic(self, receipt_text: str, wire_topic: str) -> str:
        items = receipt_text.split(" ")
        kind = items[4] if len(items) == _ITEM_COUNT else "0"
        if kind == "0":
            return wire_topic
        return pop_retry_topic(self._group, wire_topic, is_v2=kind == "2")


def _receipt_of(message: ReceivedMessage) -> PopReceipt:
    receipt: PopReceipt | None = getattr(message, "pop_receipt", None)
    if receipt is None:
        raise bad("message", "a message that a pop consumer received", message)
    return receipt


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _read(kind: type[H], reply: Command, name: str) -> H:
    try:
        return read_header(kind, reply.fields)
    except ProtocolError as error:
        raise Unreachable(name, f"invalid response: {error}") from None


def _by_queue(text: str | None) -> dict[str, int]:
    """Entries such as "0 3 17" by their first two words; what is no such entry is left out."""
    found = {}
    for entry in (text or "").split(";"):
        place, _, number = entry.rpartition(" ")
        if number.isascii() and number.isdigit():
            found[place] = int(number)
    return found


def _records(body: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(body):
        end = start + max(4, int.from_bytes(body[start : start + 4]))
        yield body[start:end]
        start = end
