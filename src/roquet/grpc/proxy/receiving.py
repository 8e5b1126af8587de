"""ReceiveMessage, AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue, by POP.

A receipt handle is the receipt of the pop and the place of the message in the log, as Apache's
proxy has it: nine items. Another proxy understands it, and so does this one after a restart.

A push consumer leaves it to the server how long its messages are in flight. The proxy renews them
while the client lives; each renewal makes a new receipt, and the client keeps using its first one.
What is held here is the newest of each. When the client is gone, or did not get the answer, the
messages are given back, and redelivered at once.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Final, NamedTuple, TypeAlias, final

from roquet.client.cluster.popping import PopOrder
from roquet.client.cluster.routes import Route
from roquet.client.errors import ClientError, RequestRefused
from roquet.client.received import PopReceipt, ReceivedMessage
from roquet.grpc.calls import Call, with_head
from roquet.grpc.clients import HELD_COUNT_MAX, HELD_S_MAX, RENEW_BEFORE_MS, GrpcClient
from roquet.grpc.codes import Code, RefusedCall, refusal_status, status_of
from roquet.grpc.message_form import put_message
from roquet.grpc.names import group_name, topic_name
from roquet.grpc.proxy.cluster import Cluster, refusal_of
from roquet.grpc.receives import (
    RENEWED_MS,
    ReceiveOptions,
    ack_answer,
    attempts_max,
    changed_ms,
    check_entries,
    expired_receipt,
    finish_empty,
    poll_s,
    receive_options,
    send_messages,
)
from roquet.grpc.schema import Message, pb
from roquet.net.errors import NetError, Refused
from roquet.net.service import Services
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.errors import BadMessage, TooLarge
from roquet.protocol.headers.messages import SendBackHeader
from roquet.protocol.messages.pop_receipt import Receipt

log = logging.getLogger(__name__)

# Straight to the dead letters.
_NO_DELAY: Final = -1
# Renewals on their way at once.
_RENEWAL_COUNT_MAX: Final = 64
# A broker's answers to the receipt of no message.
_NO_MESSAGE: Final = (ResponseCode.NO_MESSAGE, ResponseCode.MESSAGE_ILLEGAL)


class Handle(NamedTuple):
    """A receipt handle. `physical_offset` is where the message is in the log."""

    receipt: Receipt
    physical_offset: int

    @property
    def text(self) -> str:
        return f"{self.receipt.text} {self.physical_offset}"

    def pop_receipt(self, group: str, topic: str) -> PopReceipt:
        receipt = self.receipt
        return PopReceipt(
            receipt.text,
            receipt.broker_name,
            receipt.topic_for(group, topic),
            receipt.queue_id,
            receipt.offset,
        )

    @classmethod
    def read(cls, text: str) -> "Handle":
        """Raises RefusedCall."""
        receipt_text, _, offset = text.rpartition(" ")
        try:
            if not (offset.isascii() and offset.isdigit()):
                raise BadMessage(f"{offset[:20]!r} is no place in a log")  # noqa: TRY301
            return cls(Receipt.read(receipt_text), int(offset))
        except BadMessage as error:
            raise RefusedCall(Code.INVALID_RECEIPT_HANDLE, str(error)) from None


@final
class RenewedMessage:
    """A message that is in flight for as long as its client lives, and its newest receipt."""

    __slots__ = ("changing", "due_ms", "group", "receipt", "since_s")

    def __init__(self, group: str, receipt: PopReceipt, due_ms: int, since_s: float) -> None:
        self.group = group
        self.receipt = receipt
        self.due_ms = due_ms
        self.since_s = since_s
        # An acknowledgement waits for the receipt of a renewal that is on its way.
        self.changing = asyncio.Lock()


# A client of a proxy.
ProxyClient: TypeAlias = GrpcClient[RenewedMessage]


@final
class Receiving:
    """Methods raise RefusedCall, ClientError and NetError.

    `services` own what is done after a call is answered. Times are those of `now_ms`: clocks of
    brokers have to agree with it, as receipts name the times of pops.
    """

    def __init__(self, cluster: Cluster, services: Services, now_ms: Callable[[], int]) -> None:
        self._cluster = cluster
        self._services = services
        self.now_ms = now_ms
        self._turns = count()
        self._giving_back: set[PopReceipt] = set()
        self._is_given_back = asyncio.Event()

    async def receive(self, client: ProxyClient, call: Call, request: Message) -> None:
        """Answers the call itself."""
        options = receive_options(request)
        route = await self._cluster.route(options.topic)
        group = await self._cluster.group(options.group) or GroupConfig(group_name=options.group)
        name = broker_for(route, options, next(self._turns))
        order = _order(options, name, group, max(0.0, poll_s(call, request) - _age_s(call)))
        delivery = _Delivery(self, client, call, options)
        try:
            found = await self._cluster.popper(options.group).pop(order)
        except (ClientError, NetError):
            self._cluster.doubt_route(options.topic)
            raise
        await delivery.deliver(found, attempts_max(group))

    async def ack(self, client: ProxyClient | None, request: Message) -> Message:
        group, topic = group_name(request.group), topic_name(request.topic)
        check_entries(request)
        await self._cluster.route(topic)
        statuses = await asyncio.gather(
            *(self._ack_one(client, group, topic, each.receipt_handle) for each in request.entries)
        )
        return ack_answer(request, statuses)

    async def change(self, client: ProxyClient | None, request: Message) -> Message:
        group, topic = group_name(request.group), topic_name(request.topic)
        invisible_ms = changed_ms(request)
        await self._cluster.route(topic)
        handle = Handle.read(request.receipt_handle)
        async with self._taken(client, group, topic, handle) as held:
            popper = self._cluster.popper(group)
            try:
                changed = await popper.changed(
                    held.receipt, invisible_ms / 1000, is_suspended=request.suspend
                )
            except RequestRefused as refused:
                raise _receipt_refusal(refused) from None
        new = handle._replace(receipt=Receipt.read(changed.text))
        return pb.ChangeInvisibleDurationResponse(
            status=status_of(Code.OK), receipt_handle=new.text
        )

    async def forward(self, client: ProxyClient | None, request: Message) -> Message:
        group, topic = group_name(request.group), topic_name(request.topic)
        await self._cluster.route(topic)
        handle = Handle.read(request.receipt_handle)
        async with self._taken(client, group, topic, handle) as held:
            await self.send_to_dlq(
                group, topic, held.receipt, handle.physical_offset, request.message_id
            )
        return pb.ForwardMessageToDeadLetterQueueResponse(status=status_of(Code.OK))

    async def send_to_dlq(
        self, group: str, topic: str, receipt: PopReceipt, physical_offset: int, message_id: str
    ) -> None:
        """A message that was delivered too often; it is acknowledged, then."""
        header = SendBackHeader(
            offset=physical_offset,
            group=group,
            delay_level=_NO_DELAY,
            origin_msg_id=message_id,
            origin_topic=topic,
            max_reconsume_times=0,
            broker_name=receipt.broker_name,
        )
        code = RequestCode.CONSUMER_SEND_MSG_BACK
        await self._cluster.ask(receipt.broker_name, code, header)
        await self._cluster.popper(group).ack_receipt(receipt)

    async def ack_unwanted(self, group: str, receipt: PopReceipt) -> None:
        await self._cluster.popper(group).ack_receipt(receipt)

    def hold(self, client: ProxyClient, group: str, text: str, receipt: PopReceipt) -> None:
        if len(client.held) < HELD_COUNT_MAX:
            now_s = asyncio.get_running_loop().time()
            client.held[text] = RenewedMessage(group, receipt, self.now_ms() + RENEWED_MS, now_s)

    def give_back(self, group: str, receipts: Iterable[PopReceipt]) -> None:
        """They are redelivered at once, and it does not count as a delivery."""
        for receipt in receipts:
            self._giving_back.add(receipt)
            self._is_given_back.clear()
            self._services.once("give back", partial(self._give_back, group, receipt))

    def give_back_held(self, held: Collection[RenewedMessage]) -> None:
        for each in held:
            self.give_back(each.group, [each.receipt])

    async def renew(self, clients: Iterable[ProxyClient]) -> None:
        """Those whose time is nearly over get more of it."""
        due = [
            (client, text, held)
            for client in clients
            for text, held in client.held.items()
            if held.due_ms - self.now_ms() < RENEW_BEFORE_MS
        ]
        for start in range(0, len(due), _RENEWAL_COUNT_MAX):
            part = due[start : start + _RENEWAL_COUNT_MAX]
            await asyncio.gather(*(self._renew(*each) for each in part))

    async def _renew(self, client: ProxyClient, text: str, held: RenewedMessage) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s - held.since_s > HELD_S_MAX:
            client.held.pop(text, None)
            return
        async with held.changing:
            if client.held.get(text) is not held:
                return  # It was acknowledged meanwhile.
            try:
                popper = self._cluster.popper(held.group)
                held.receipt = await popper.changed(held.receipt, RENEWED_MS / 1000)
                held.due_ms = self.now_ms() + RENEWED_MS
            except RequestRefused as refused:
                log.info("a message of %s is not renewed any more: %s", held.group, refused)
                client.held.pop(text, None)
            except (ClientError, NetError) as error:
                log.warning("a message of %s is not renewed yet: %s", held.group, error)

    async def _ack_one(
        self, client: ProxyClient | None, group: str, topic: str, text: str
    ) -> Message:
        try:
            async with self._taken(client, group, topic, Handle.read(text)) as held:
                await self._cluster.popper(group).ack_receipt(held.receipt)
        except RequestRefused as refused:
            return refusal_status(_receipt_refusal(refused))
        except Refused as refused:
            return refusal_status(refused)
        except (ClientError, NetError) as error:
            return refusal_status(refusal_of(error))
        return status_of(Code.OK)

    def _taken(
        self, client: ProxyClient | None, group: str, topic: str, handle: Handle
    ) -> "_Taken":
        return _Taken(client, group, topic, handle, self.now_ms)

    async def _give_back(self, group: str, receipt: PopReceipt) -> None:
        try:
            await self._cluster.popper(group).changed(receipt, 0, is_suspended=True)
        except (ClientError, NetError) as error:
            log.info("a message of %s is redelivered when its time is over: %s", group, error)
        finally:
            self._giving_back.discard(receipt)
            if not self._giving_back:
                self._is_given_back.set()

    async def until_given_back(self, timeout_s: float) -> None:
        """What clients did not get is on its way; for as long as a proxy that stops may wait."""
        if self._giving_back:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._is_given_back.wait()


@final
class _Taken:
    """What a handle is about, while it is acknowledged or changed; then it is held no more."""

    def __init__(
        self,
        client: ProxyClient | None,
        group: str,
        topic: str,
        handle: Handle,
        now_ms: Callable[[], int],
    ) -> None:
        self._client = client
        self._text = handle.text
        held = None if client is None else client.held.get(handle.text)
        if held is None:
            if handle.receipt.end_ms <= now_ms():
                raise expired_receipt()
            receipt = handle.pop_receipt(group, topic)
            held = RenewedMessage(group, receipt, handle.receipt.end_ms, 0.0)
        self._held = held

    async def __aenter__(self) -> RenewedMessage:
        await self._held.changing.acquire()
        return self._held

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._held.changing.release()
        if kind is None and self._client is not None:
            self._client.held.pop(self._text, None)


@final
class _Delivery:
    """From a pop to a client that has it all, or gives it back."""

    def __init__(
        self, receiving: Receiving, client: ProxyClient, call: Call, options: ReceiveOptions
    ) -> None:
        self._receiving = receiving
        self._client = client
        self._call = call
        self._options = options
        self._given: list[PopReceipt] = []
        self._texts: list[str] = []
        call.on_closed = self._closed

    async def deliver(self, found: Sequence[ReceivedMessage], count_max: int) -> None:
        shown = [await self._shown(each, count_max) for each in found]
        messages = [each for each in shown if each is not None]
        if not self._call.is_open:
            self._give_back()
        elif messages:
            send_messages(self._call, messages, self._receiving.now_ms())
        else:
            text = "no match message" if found else "no new message"
            finish_empty(self._call, status_of(Code.MESSAGE_NOT_FOUND, text))

    async def _shown(self, message: ReceivedMessage, count_max: int) -> bytes | None:
        """In DATA; None for one that the client does not want, or has had too often."""
        receipt, options = message.pop_receipt, self._options
        assert receipt is not None, "it was popped"
        try:
            record = message.record
            record.reconsume_times = max(record.reconsume_times, message.local_retry_count)
            handle = Handle(Receipt.read(receipt.text), record.physical_offset)
            if not options.wants(record):
                await self._receiving.ack_unwanted(options.group, receipt)
                return None
            if record.reconsume_times >= count_max:
                await self._receiving.send_to_dlq(
                    options.group, options.topic, receipt, record.physical_offset, record.message_id
                )
                return None
            shown = pb.ReceiveMessageResponse()
            put_message(shown.message, record, options.topic, handle.text)
        except (BadMessage, TooLarge, ClientError, NetError) as error:
            log.warning(
                "a message of %s is redelivered when its time is over: %s", options.group, error
            )
            return None
        self._given.append(receipt)
        self._texts.append(handle.text)
        if options.is_renewed and self._call.is_open:
            self._receiving.hold(self._client, options.group, handle.text, receipt)
        return with_head(shown.SerializeToString())

    def _closed(self, is_complete: bool) -> None:
        if not is_complete:
            self._give_back()

    def _give_back(self) -> None:
        given, self._given = self._given, []
        for text in self._texts:
            self._client.held.pop(text, None)
        self._receiving.give_back(self._options.group, given)


def broker_for(route: Route, options: ReceiveOptions, turn: int) -> str:
    """That which the client names, or the next one. Raises RefusedCall."""
    names = sorted({each.broker_name for each in route.readable} & route.masters.keys())
    if not names:
        text = f"no master has a queue of topic {options.topic!r} that can be read"
        raise RefusedCall(Code.FORBIDDEN, text)
    return options.broker_name if options.broker_name in names else names[turn % len(names)]


def _order(
    options: ReceiveOptions, broker_name: str, group: GroupConfig, wait_s: float
) -> PopOrder:
    attempt_id = None
    if group.consume_message_orderly:
        attempt_id = options.attempt_id or uuid.uuid4().hex
    return PopOrder(
        broker_name,
        options.topic,
        options.subscription,
        options.count_max,
        options.invisible_ms / 1000,
        wait_s,
        from_first=False,
        attempt_id=attempt_id,
    )


def _age_s(call: Call) -> float:
    """What has passed of its time."""
    return asyncio.get_running_loop().time() - call.since_s


def _receipt_refusal(refused: RequestRefused) -> RefusedCall:
    if refused.code in _NO_MESSAGE:
        return RefusedCall(Code.INVALID_RECEIPT_HANDLE, str(refused))
    return refusal_of(refused)
