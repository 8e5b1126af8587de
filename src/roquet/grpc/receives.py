"""ReceiveMessage as a client asks for it, and as it is answered.

The answer is a stream: a status, the messages, and when they were handed out; without any messages
it is a status alone.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from roquet.grpc.calls import Call, with_head
from roquet.grpc.codes import Code, FilterType, RefusedCall, common_status, status_of
from roquet.grpc.message_form import ms_of, put_time
from roquet.grpc.names import group_name, topic_name
from roquet.grpc.schema import Message, pb
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.errors import BadExpression, TooLarge
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.subscription import ExpressionType, Subscription, parse_subscription

BATCH_COUNT_MAX: Final = 32
# Of one acknowledgement.
ENTRY_COUNT_MAX: Final = 1024
INVISIBLE_MS_MIN: Final = 10_000
INVISIBLE_MS_MAX: Final = 12 * 3_600_000
POLL_S_MAX: Final = 20.0
# A poll is answered so long before its client stops waiting.
_MARGIN_S: Final = 0.2
# How long a message is in flight if its client leaves that to the server, which renews it in time.
RENEWED_MS: Final = 60_000
# An int32 in what clients get.
_ATTEMPTS_MAX: Final = 2**31 - 1

_FIRST: Final = pb.ReceiveMessageResponse(status=status_of(Code.OK)).SerializeToString()


class ReceiveOptions(NamedTuple):
    """What a client asked for. `broker_name` is empty if any will do."""

    group: str
    topic: str
    broker_name: str
    subscription: Subscription
    count_max: int
    invisible_ms: int
    is_renewed: bool
    attempt_id: str

    def wants(self, message: StoredMessage) -> bool:
        """By the tags themselves, where brokers have compared hashes."""
        return not self.subscription.tags or message.tags in self.subscription.tags


def attempts_max(group: GroupConfig) -> int:
    """How often a message is delivered to the group."""
    return min(group.retry_max_times + 1, _ATTEMPTS_MAX)


def receive_options(request: Message) -> ReceiveOptions:
    """Raises RefusedCall."""
    invisible_ms = ms_of(request.invisible_duration)
    if request.auto_renew:
        invisible_ms = RENEWED_MS
    elif not INVISIBLE_MS_MIN <= invisible_ms <= INVISIBLE_MS_MAX:
        text = (
            f"messages are invisible for {INVISIBLE_MS_MIN // 1000} s to"
            f" {INVISIBLE_MS_MAX // 3_600_000} h and not for {invisible_ms} ms"
        )
        raise RefusedCall(Code.ILLEGAL_INVISIBLE_TIME, text)
    topic = topic_name(request.message_queue.topic)
    return ReceiveOptions(
        group=group_name(request.group),
        topic=topic,
        broker_name=request.message_queue.broker.name,
        subscription=subscription_of(topic, request.filter_expression),
        count_max=max(1, min(request.batch_size, BATCH_COUNT_MAX)),
        invisible_ms=invisible_ms,
        is_renewed=request.auto_renew,
        attempt_id=request.attempt_id,
    )


def subscription_of(topic: str, expression: Message) -> Subscription:
    """Raises RefusedCall."""
    is_sql = expression.type == FilterType.SQL
    kind = ExpressionType.SQL92 if is_sql else ExpressionType.TAG
    try:
        return parse_subscription(topic, expression.expression, kind)
    except (BadExpression, TooLarge) as error:
        raise RefusedCall(Code.ILLEGAL_FILTER_EXPRESSION, str(error)) from None


def changed_ms(request: Message) -> int:
    """How long a message is invisible from now on. Raises RefusedCall."""
    invisible_ms = ms_of(request.invisible_duration)
    if not 0 <= invisible_ms <= INVISIBLE_MS_MAX:
        text = f"a message is invisible for at most {INVISIBLE_MS_MAX // 3_600_000} h"
        raise RefusedCall(Code.ILLEGAL_INVISIBLE_TIME, text)
    return invisible_ms


def check_entries(request: Message) -> None:
    """Of an acknowledgement. Raises RefusedCall."""
    if not 0 < len(request.entries) <= ENTRY_COUNT_MAX:
        text = f"a request acknowledges 1 to {ENTRY_COUNT_MAX} messages"
        raise RefusedCall(Code.BAD_REQUEST, text)


def expired_receipt() -> RefusedCall:
    text = "the receipt has expired: the message is redelivered"
    return RefusedCall(Code.INVALID_RECEIPT_HANDLE, text)


def ack_answer(request: Message, statuses: list[Message]) -> Message:
    response = pb.AckMessageResponse(status=common_status(statuses))
    for entry, status in zip(request.entries, statuses, strict=True):
        result = response.entries.add(
            message_id=entry.message_id, receipt_handle=entry.receipt_handle
        )
        result.status.CopyFrom(status)
    return response


def poll_s(call: Call, request: Message) -> float:
    """How long a receive waits for messages."""
    wait_s = POLL_S_MAX
    if request.HasField("long_polling_timeout"):
        wait_s = min(wait_s, ms_of(request.long_polling_timeout) / 1000)
    if call.timeout_s is not None:
        wait_s = min(wait_s, call.timeout_s - _MARGIN_S)
    return wait_s


def send_messages(call: Call, framed: Iterable[bytes], now_ms: int) -> None:
    """Each of them is a response with one message, as it goes into DATA."""
    last = pb.ReceiveMessageResponse()
    put_time(last.delivery_timestamp, now_ms)
    call.answer_framed(_FIRST, [*framed, with_head(last.SerializeToString())])


def finish_empty(call: Call, status: Message) -> None:
    call.answer(pb.ReceiveMessageResponse(status=status).SerializeToString())
