"""What becomes of messages that were sent: whether a broker has one, and how to call it back."""

from collections.abc import Sequence
from typing import Final

from roquet.client.arguments import bad, check_queue
from roquet.client.cluster.instance import ClientInstance
from roquet.client.cluster.routes import MASTER_ID
from roquet.client.errors import BadArgument, NoReply, RequestRefused, SendUnknown, Unreachable
from roquet.client.names import wrapped
from roquet.client.queue_ref import QueueRef
from roquet.client.received import received_messages
from roquet.net.errors import NetError
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.errors import BadMessage, ProtocolError
from roquet.protocol.fields import read_header
from roquet.protocol.headers.messages import (
    QueryMessageHeader,
    RecallMessageHeader,
    RecallMessageReplyHeader,
)
from roquet.protocol.messages.recall_handle import RecallHandle

# Of a query by id.
_FIRST_MS: Final = 0
_LAST_MS: Final = 2**63 - 1
# Of one id there may be several messages: retries keep it.
_COUNT_MAX: Final = 32
_NOT_FOUND: Final = (ResponseCode.QUERY_NOT_FOUND, ResponseCode.NO_MESSAGE)


def looked_for(
    place: QueueRef | SendUnknown | NoReply, message_id: str | None
) -> tuple[Sequence[QueueRef], str]:
    """Raises BadArgument."""
    if isinstance(place, SendUnknown | NoReply):
        queues = place.queues if isinstance(place, SendUnknown) else (place.queue,)
        if place.message_id is None or not queues:
            raise BadArgument(
                "the message of this error was sent to no queue that is known", "queue"
            )
        # One for each broker, which looks into all of its queues.
        by_broker = {queue.broker_name: queue for queue in queues}
        return [*by_broker.values()], place.message_id
    check_queue("queue", place)
    if message_id is None:
        raise BadArgument(
            "give `message_id`, or the error of a send instead of a queue", "message_id"
        )
    return [place], message_id


async def is_stored_at(
    instance: ClientInstance,
    namespace: str | None,
    queue: QueueRef,
    message_id: str,
    timeout_s: float,
) -> bool:
    """Asks the master that has the queue for the whole topic. Raises ClientError."""
    wire_topic = wrapped(namespace, queue.topic)
    address = await _master(instance, queue.broker_name, wire_topic, timeout_s)
    header = QueryMessageHeader(
        topic=wire_topic,
        key=message_id,
        max_num=_COUNT_MAX,
        begin_timestamp=_FIRST_MS,
        end_timestamp=_LAST_MS,
        # Not marked as a unique key: that only sets the count, and brokers do not agree on
        # whether the mark is part of what is signed.
    )
    try:
        reply = await instance.requests.call(address, RequestCode.QUERY_MESSAGE, header, timeout_s)
        if reply.code in _NOT_FOUND:
            return False
        if reply.code != ResponseCode.SUCCESS:
            raise RequestRefused(address, reply.code, reply.remark)
        anywhere = queue._replace(topic=wire_topic)
        # Brokers compare hashes, so what they find is compared again.
        return any(
            found.message_id == message_id and found.record.topic == wire_topic
            for found in received_messages(reply.body, anywhere, namespace)
        )
    except ProtocolError as error:
        raise Unreachable(queue.broker_name, f"invalid response: {error}") from None
    except NetError as error:
        raise Unreachable(queue.broker_name, str(error)) from error


async def recalled(instance: ClientInstance, text: str, timeout_s: float) -> str:
    """Calls a message back that waits for its time; its id. Raises ClientError."""
    if not isinstance(text, str):
        raise bad("handle", "the recall_handle of a receipt", text)
    try:
        handle = RecallHandle.read(text)
    except BadMessage as error:
        raise BadArgument(str(error), "handle") from None
    name = handle.broker_name
    address = await _master(instance, name, handle.topic, timeout_s)
    header = RecallMessageHeader(topic=handle.topic, recall_handle=text, broker_name=name)
    try:
        reply = await instance.requests.call(address, RequestCode.RECALL_MESSAGE, header, timeout_s)
        if reply.code != ResponseCode.SUCCESS:
            raise RequestRefused(address, reply.code, reply.remark)
        return read_header(RecallMessageReplyHeader, reply.fields).msg_id
    except ProtocolError as error:
        raise Unreachable(name, f"invalid response: {error}") from None
    except NetError as error:
        raise Unreachable(name, str(error)) from error


async def _master(
    instance: ClientInstance, broker_name: str, wire_topic: str, timeout_s: float
) -> str:
    """Its address. Raises ClientError."""
    if MASTER_ID not in instance.routes.broker(broker_name):
        # Another producer may have sent there.
        await instance.routes.newest(wire_topic, timeout_s)
    address = instance.routes.broker(broker_name).get(MASTER_ID)
    if address is None:
        raise Unreachable(broker_name, "name servers list no master for it")
    return address
