"""What becomes of received messages: AckMessage, ChangeInvisibleDuration, and
ForwardMessageToDeadLetterQueue.

A receipt handle is the receipt of a pop: it names queue, offset and times, so that a restarted
broker accepts it, too. One whose time is over is refused, unless the message is still in flight
with it: the messages of a push consumer are, for as long as that lives.
"""

from roquet.broker.broker import Broker
from roquet.broker.handlers.answers import check_is_master
from roquet.broker.messages.acks import OnTimeout
from roquet.broker.pop.acking import acknowledge, change_time
from roquet.broker.pop.in_flight import PopKey, QueueOfGroup
from roquet.grpc.calls import Call
from roquet.grpc.clients import GrpcClient
from roquet.grpc.codes import (
    Code,
    RefusedCall,
    code_of,
    refusal_status,
    status_of,
)
from roquet.grpc.in_broker.ack_turn import Ack, AckTurn, Result
from roquet.grpc.in_broker.receiving import send_to_dlq
from roquet.grpc.in_broker.registration import Held
from roquet.grpc.in_broker.routing import found_topic
from roquet.grpc.names import group_name
from roquet.grpc.receives import changed_ms, check_entries, expired_receipt
from roquet.grpc.schema import Message, pb
from roquet.net.errors import Refused
from roquet.protocol.codes import ResponseCode
from roquet.protocol.errors import BadMessage
from roquet.protocol.messages.pop_receipt import ORDERED_QUEUE_ID, Receipt
from roquet.protocol.messages.record import read_record
from roquet.store.reading.queue_reading import QueueReadLimits


def ack_message(
    broker: Broker, turn: AckTurn, client: GrpcClient[Held] | None, call: Call, request: Message
) -> None:
    """Raises Refused."""
    check_is_master(broker.config)
    group, topic = group_name(request.group), found_topic(broker, request.topic).topic_name
    check_entries(request)
    end = 0
    results: list[Result] = []
    for entry in request.entries:
        try:
            queue, receipt = _held(broker, group, topic, entry.receipt_handle)
            if receipt.revive_queue_id == ORDERED_QUEUE_ID:
                end = max(end, acknowledge(broker, queue, receipt, (receipt.offset,)))
                results.append(status_of(Code.OK))
            else:
                key = PopKey(queue, receipt.start_offset, receipt.pop_time_ms)
                results.append(turn.join(key, receipt.offset))
            if client is not None:
                client.held.pop(entry.receipt_handle, None)
        except Refused as refused:
            results.append(refusal_status(refused))
    turn.add(Ack(call, request, results), end)


def change_invisible_duration(
    broker: Broker, client: GrpcClient[Held] | None, call: Call, request: Message
) -> None:
    """Raises Refused."""
    check_is_master(broker.config)
    group, topic = group_name(request.group), found_topic(broker, request.topic).topic_name
    invisible_ms = changed_ms(request)
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


def forward_to_dlq(
    broker: Broker, client: GrpcClient[Held] | None, call: Call, request: Message
) -> None:
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
    except BadMessage as error:
        raise RefusedCall(Code.INVALID_RECEIPT_HANDLE, str(error)) from None
    queue = QueueOfGroup(group, receipt.topic_for(group, topic), receipt.queue_id)
    is_over = receipt.end_ms <= broker.clock.now_ms()
    if is_over and not _is_in_flight(broker, queue, receipt):
        raise expired_receipt()
    return queue, receipt


def _is_in_flight(broker: Broker, queue: QueueOfGroup, receipt: Receipt) -> bool:
    journal = broker.waiting.pops
    if receipt.revive_queue_id == ORDERED_QUEUE_ID:
        ordered = journal.ordered.find(queue)
        outing = None if ordered is None else ordered.out.get(receipt.offset)
        return outing is not None and outing.pop_time_ms == receipt.pop_time_ms
    point = journal.in_flight.find(PopKey(queue, receipt.start_offset, receipt.pop_time_ms))
    return point is not None and point.index_of(receipt.offset) is not None
