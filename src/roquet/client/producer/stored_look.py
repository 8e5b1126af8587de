"""Whether a broker has a message already: what a producer can ask before it sends one again."""

from typing import Final

from roquet.client.cluster.instance import ClientInstance
from roquet.client.cluster.routes import MASTER_ID
from roquet.client.errors import RequestRefused, Unreachable
from roquet.client.names import wrapped
from roquet.client.queue_ref import QueueRef
from roquet.client.received import received_messages
from roquet.net.errors import NetError
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.errors import ProtocolError
from roquet.protocol.headers.messages import QueryMessageHeader

_FIRST_MS: Final = 0
_LAST_MS: Final = 2**63 - 1
# Of one id there may be copies: retries keep it.
_COUNT_MAX: Final = 32
_NOT_FOUND: Final = (ResponseCode.QUERY_NOT_FOUND, ResponseCode.NO_MESSAGE)


async def is_stored(
    instance: ClientInstance,
    namespace: str | None,
    queue: QueueRef,
    message_id: str,
    timeout_s: float,
) -> bool:
    """Asks the master that has the queue for the whole topic. Raises ClientError."""
    wire_topic = wrapped(namespace, queue.topic)
    if MASTER_ID not in instance.routes.broker(queue.broker_name):
        # Somebody else may have sent there.
        await instance.routes.newest(wire_topic, timeout_s)
    address = instance.routes.broker(queue.broker_name).get(MASTER_ID)
    if address is None:
        raise Unreachable(queue.broker_name, "no name server knows a master of it")
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
        # Brokers compare hashes, so what they find is looked at again.
        return any(
            found.message_id == message_id and found.record.topic == wire_topic
            for found in received_messages(reply.body, anywhere, namespace)
        )
    except ProtocolError as error:
        raise Unreachable(queue.broker_name, f"it answered nonsense: {error}") from None
    except NetError as error:
        raise Unreachable(queue.broker_name, str(error)) from error
