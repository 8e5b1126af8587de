"""What becomes of received messages: AckMessage, ChangeInvisibleDuration, and
ForwardMessageToDeadLetterQueue.

A receipt handle is the receipt of a pop: it names queue, offset and times, so that a broker that
was restarted knows it, too. One whose time is over is refused, unless the message is still out for
it: the messages of a push consumer are, for as long as that lives.
"""

from typing import Final

from roquet.broker.broker import Broker
from roquet.broker.errors import BadReceipt
from roquet.broker.handlers.answers import check_is_master
from roquet.broker.messages.acks import OnTimeout
from roquet.broker.pop.acking import acknowledge, change_time
from roquet.broker.pop.in_flight import PopKey, QueueOfGroup
from roquet.broker.pop.receipts import ORDERED_QUEUE_ID, Receipt, TopicKind
from roquet.grpc.calls import Call
from roquet.grpc.clients import GrpcClient
from roquet.grpc.codes import (
    Code,
    RefusedCall,
    code_of,
    common_status,
    refusal_status,
    status_of,
)
from roquet.grpc.message_form import ms_of
from roquet.grpc.names import found_topic, group_name
from roquet.grpc.receiving import INVISIBLE_MS_MAX, send_to_dlq
from roquet.grpc.schema import Message, pb
from roquet.net.errors import Refused
from roquet.protocol.codes import ResponseCode
from roquet.protocol.errors import BadMessage
from roquet.protocol.messages.record import read_record
from roquet.protocol.names import pop_retry_topic
from roquet.store.reading.queue_reading import QueueReadLimits

ENTRY_COUNT_MAX: Final = 1024


def ack_message(broker: Broker, client: GrpcClient | None, call: Call, request: Message) -> None:
    """Raises Refused."""
    check_is_master(broker.config)
    group, topic = group_name(request.group), found_topic(broker, request.topic).topic_name
    if not 0 < len(request.entries) <= ENTRY_COUNT_MAX:
        text = f"a request acknowledges 1 to {ENTRY_COUNT_MAX} messages"
        raise RefusedCall(Code.BAD_REQUEST, text)
    ends = [0]
    statuses = []
    for entry in request.entries:
        try:
            queue, receipt = _held(broker, group, topic, entry.receipt_handle)
            ends.append(acknowledge(broker, queue, receipt, (receipt.offset,)))
            statuses.append(status_of(Code.OK))
            if client is not None:
                client.held.pop(entry.receipt_handle, None)
        except Refused as refused:
            statuses.append(refusal_status(refused))

    def answer(code: ResponseCode) -> None:
        found = statuses
        if code is not ResponseCode.SUCCESS:
            late = status_of(code_of(code), "the message may come again")
            found = [late if each.code == Code.OK else each for each in statuses]
        entries = [
            pb.AckMessageResultEntry(
                message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=status
            )
            for entry, status in zip(request.entries, found, strict=True)
        ]
        response = pb.AckMessageResponse(status=common_status(found), entries=entries)
        call.answer(response.SerializeToString())

    broker.messages.acks.when_settled(max(ends), answer, OnTimeout.REFUSE)


def change_invisible_duration(
    broker: Broker, client: GrpcClient | None, call: Call, request: Message
) -> None:
    """Raises Refused."""
    check_is_master(broker.config)
    group, topic = group_name(request.group), found_topic(broker, request.topic).topic_name
    invisible_ms = ms_of(request.invisible_duration)
    if not 0 <= invisible_ms <= INVISIBLE_MS_MAX:
        text = f"a message is invisible for at most {INVISIBLE_MS_MAX // 3_600_000} h"
        raise RefusedCall(Code.ILLEGAL_INVISIBLE_TIME, text)
    queue, receipt = _held(broker, group, topic, request.receipt_handle)
    changed = change_time(broker, queue, receipt, invisible_ms, is_suspended=request.suspend)
    if client is not None:
        client.held.pop(request.receipt_handle, None)

    def answer(code: ResponseCode) -> None:
        response = pb.ChangeInvisibleDurationResponse(
            status=status_of(code_of(code)), receipt_handle=changed.receipt.text
        )
        call.answer(response.SerializeToString())

    broker.messages.acks.when_settled(changed.end, answer, OnTimeout.REFUSE)


def forward_to_dlq(broker: Broker, client: GrpcClient | None, call: Call, request: Message) -> None:
    """Raises Refused."""
    check_is_master(broker.config)
    group, topic = group_name(request.group), found_topic(broker, request.topic).topic_name
    queue, receipt = _held(broker, group, topic, request.receipt_handle)
    read = broker.store.read(queue.topic, queue.queue_id, receipt.offset, QueueReadLimits(1, 1))
    try:
        message = read_record(read.body) if read.body else None
    except BadMessage:
        message = None
    if message is not None and message.queue_offset == receipt.offset:
        send_to_dlq(broker, message, group)
    acknowledge(broker, queue, receipt, (receipt.offset,))
    end = broker.store.log_end
    if client is not None:
        client.held.pop(request.receipt_handle, None)

    def answer(code: ResponseCode) -> None:
        response = pb.ForwardMessageToDeadLetterQueueResponse(status=status_of(code_of(code)))
        call.answer(response.SerializeToString())

    broker.messages.acks.when_settled(end, answer, OnTimeout.REFUSE)


def _held(broker: Broker, group: str, topic: str, handle: str) -> tuple[QueueOfGroup, Receipt]:
    """What a receipt handle is about. Raises RefusedCall."""
    try:
        receipt = Receipt.read(handle)
    except BadReceipt as error:
        raise RefusedCall(Code.INVALID_RECEIPT_HANDLE, error.remark) from None
    name = topic
    if receipt.kind != TopicKind.TOPIC:
        name = pop_retry_topic(group, topic, is_v2=receipt.kind == TopicKind.RETRY_V2)
    queue = QueueOfGroup(group, name, receipt.queue_id)
    is_over = receipt.pop_time_ms + receipt.invisible_ms <= broker.clock.now_ms()
    if is_over and not _is_out(broker, queue, receipt):
        text = "its time is over, and the message comes again, or has come again"
        raise RefusedCall(Code.INVALID_RECEIPT_HANDLE, text)
    return queue, receipt


def _is_out(broker: Broker, queue: QueueOfGroup, receipt: Receipt) -> bool:
    journal = broker.waiting.pops
    if receipt.revive_queue_id == ORDERED_QUEUE_ID:
        ordered = journal.ordered.find(queue)
        outing = None if ordered is None else ordered.out.get(receipt.offset)
        return outing is not None and outing.pop_time_ms == receipt.pop_time_ms
    point = journal.in_flight.find(PopKey(queue, receipt.start_offset, receipt.pop_time_ms))
    return point is not None and point.index_of(receipt.offset) is not None
