"""Pop requests of 5.x: messages for a time, acknowledged or given another time one by one.

Brokers keep account of what is out. A receipt, which comes with each message, names one delivery:

    first offset, pop time, invisible time, revive queue, kind of topic, broker, queue, offset
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeVar, final

from roquet.client.arguments import bad
from roquet.client.cluster.requests import Requests
from roquet.client.cluster.routes import MASTER_ID, RouteBook
from roquet.client.errors import RequestRefused, Unreachable
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

ANY_QUEUE: Final = -1
INVISIBLE_S: Final = 60.0
INVISIBLE_S_MAX: Final = 12 * 3_600.0
RECEIVE_COUNT_MAX: Final = 32
WAIT_S: Final = 15.0

_FROM_FIRST: Final = 0
_FROM_LAST: Final = 1
_ITEM_COUNT: Final = 8

H = TypeVar("H", bound=Header)


class PopOrder(NamedTuple):
    """What is popped, at most how many, for how long, and how long a broker waits for messages."""

    broker_name: str
    topic: str
    subscription: Subscription
    count_max: int
    invisible_s: float
    wait_s: float
    queue_id: int = ANY_QUEUE
    # For a group that is new.
    from_first: bool = True
    # Of an ordered pop: messages of one message group come one after the other.
    attempt_id: str | None = None


@final
class Popper:
    """For one group, as brokers know it. Methods raise Unreachable and RequestRefused."""

    def __init__(
        self,
        requests: Requests,
        routes: RouteBook,
        group: str,
        namespace: str | None,
        timeout_s: float,
    ) -> None:
        self._requests = requests
        self._routes = routes
        self._group = group
        self._namespace = namespace
        self._timeout_s = timeout_s

    async def pop(self, order: PopOrder) -> list[ReceivedMessage]:
        """Empty if there were none for the time that the broker waits."""
        header = PopMessageHeader(
            consumer_group=self._group,
            topic=order.topic,
            queue_id=order.queue_id,
            max_msg_nums=order.count_max,
            invisible_time=_ms(order.invisible_s),
            poll_time=_ms(order.wait_s),
            born_time=0,  # By the broker's clock, which may differ from ours.
            init_mode=_FROM_FIRST if order.from_first else _FROM_LAST,
            exp_type=order.subscription.expression_type,
            exp=order.subscription.expression,
            order=order.attempt_id is not None,
            attempt_id=order.attempt_id,
        )
        name = order.broker_name
        reply = await self._ask(name, RequestCode.POP_MESSAGE, header, order.wait_s)
        if reply.code == ResponseCode.SUCCESS:
            return self._messages(reply, name, order.topic)
        if reply.code == ResponseCode.POLLING_TIMEOUT:
            return []
        raise RequestRefused(name, reply.code, reply.remark)

    async def ack(self, message: ReceivedMessage) -> None:
        """The message does not come again, unless its time was over already. Raises BadArgument,
        too."""
        await self.ack_receipt(_receipt_of(message))

    async def ack_receipt(self, receipt: PopReceipt) -> None:
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
        """The message comes again after this time from now on. Raises BadArgument, too."""
        message.pop_receipt = await self.changed(_receipt_of(message), invisible_s)

    async def changed(
        self, receipt: PopReceipt, invisible_s: float, *, is_suspended: bool = False
    ) -> PopReceipt:
        """The new receipt of a message that gets another time. Of one that is suspended, the
        delivery does not count; only brokers of 5.5 and ours know that."""
        header = ChangeInvisibleTimeHeader(
            consumer_group=self._group,
            topic=receipt.topic,
            queue_id=receipt.queue_id,
            extra_info=receipt.text,
            offset=receipt.offset,
            invisible_time=_ms(invisible_s),
            suspend=is_suspended,
            broker_name=receipt.broker_name,
        )
        reply = await self._answer(receipt, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
        changed = _read(ChangeInvisibleTimeReplyHeader, reply, receipt.broker_name)
        kind = receipt.text.split(" ")[4]
        return receipt._replace(
            text=f"{receipt.offset} {changed.pop_time} {changed.invisible_time} "
            f"{changed.revive_qid} {kind} {receipt.broker_name} {receipt.queue_id} {receipt.offset}"
        )

    async def _answer(self, receipt: PopReceipt, code: RequestCode, header: Header) -> Command:
        reply = await self._ask(receipt.broker_name, code, header, 0)
        if reply.code != ResponseCode.SUCCESS:
            raise RequestRefused(receipt.broker_name, reply.code, reply.remark)
        return reply

    async def _ask(self, name: str, code: RequestCode, header: Header, wait_s: float) -> Command:
        address = self._routes.broker(name).get(MASTER_ID)
        if address is None:
            raise Unreachable(name, "name servers list no master for it")
        try:
            return await self._requests.call(address, code, header, wait_s + self._timeout_s)
        except NetError as error:
            raise Unreachable(name, str(error)) from error

    def _messages(self, reply: Command, name: str, topic: str) -> list[ReceivedMessage]:
        header = _read(PopMessageReplyHeader, reply, name)
        starts = _by_queue(header.start_offset_info)
        times = _by_queue(header.order_count_info)
        messages = []
        for record in _records(reply.body):
            message = received_of(record, name, self._namespace)
            queue_id, offset = message.record.queue_id, message.record.queue_offset
            # The broker gives retries theirs, and the names of the topic that was asked for.
            text = message.properties.get(Property.POP_CHECK_POINT) or (
                f"{starts.get(f'0 {queue_id}', offset)} {header.pop_time} {header.invisible_time}"
                f" {header.revive_qid} 0 {name} {queue_id} {offset}"
            )
            real_topic = self._real_topic(text, topic)
            message.pop_receipt = PopReceipt(text, name, real_topic, queue_id, offset)
            message.local_retry_count = times.get(f"0 qo{queue_id}%{offset}", 0)
            messages.append(message)
        return messages

    def _real_topic(self, receipt_text: str, topic: str) -> str:
        items = receipt_text.split(" ")
        kind = items[4] if len(items) == _ITEM_COUNT else "0"
        if kind == "0":
            return topic
        return pop_retry_topic(self._group, topic, is_v2=kind == "2")


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
