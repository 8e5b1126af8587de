"""The first attempt of a message that goes as it is to any queue: nothing is left to decide.

It is made at once, if the route is known and the connection open, without all that only retries,
hooks and signatures need. Whatever it ends in but "stored" is judged in `sending.py`, which tries
again if that is worth it.
"""

from collections import defaultdict
from functools import partial
from typing import Final, final

import msgspec

from roquet.client.cluster.fast_port import fast_address
from roquet.client.cluster.instance import ClientInstance
from roquet.client.cluster.routes import Route
from roquet.client.config import ProducerConfig
from roquet.client.hooks import MessageKind
from roquet.client.names import wrapped
from roquet.client.producer.outgoing import Ready, header_of, is_compressed, outgoing_of
from roquet.client.producer.queue_choice import pick_queue
from roquet.client.producer.receipt import SendReceipt
from roquet.client.queue_ref import QueueRef
from roquet.clock import Clock
from roquet.net.connection import Connection
from roquet.net.pending_calls import PendingCall
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.errors import ProtocolError
from roquet.protocol.fields import header_reader
from roquet.protocol.headers.messages import SendMessageReplyHeader
from roquet.protocol.messages.message import Message
from roquet.protocol.prepared.send_request import SendTemplate

_SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
_SUCCESS: Final = int(ResponseCode.SUCCESS)
_NORMAL: Final = MessageKind.NORMAL

_read_reply = header_reader(SendMessageReplyHeader)


class _Way(msgspec.Struct):
    """To one queue. `queue` has the topic as the caller knows it."""

    queue: QueueRef
    address: str
    template: SendTemplate


class _Ways(msgspec.Struct):
    """To the queues of one topic, as far as they were used, as long as the route is the same."""

    route: Route
    wire_topic: str
    by_queue: dict[QueueRef, _Way]


class FirstAttempt(msgspec.Struct):
    """On its way. Whoever does not wait for it any more has to end it."""

    queue: QueueRef
    address: str
    call: PendingCall
    connection: Connection

    def reply(self) -> Command:
        """What it ended in. Raises NetError."""
        return self.call.response.result()

    def end(self) -> None:
        self.connection.end_call(self.call)


@final
class FirstAttempts:
    """`turns` are the rounds of the queues, by topic, which all attempts go on with."""

    def __init__(
        self,
        config: ProducerConfig,
        instance: ClientInstance,
        clock: Clock,
        turns: defaultdict[str, int],
    ) -> None:
        self._config = config
        self._routes = instance.routes
        self._peers = instance.peers
        self._clock = clock
        self._turns = turns
        self._ways: dict[str, _Ways] = {}

    def begin(self, ready: Ready, timeout_s: float, now_s: float) -> FirstAttempt | None:
        """None if there is more to do than to send it; then nothing was done."""
        message = ready.message
        if (
            type(message) is not Message
            or ready.kind is not _NORMAL
            or ready.is_request
            or is_compressed(message, self._config)
        ):
            return None
        ways = self._ways.get(message.topic)
        if ways is None or self._routes.known(ways.wire_topic) is not ways.route:
            ways = self._new_ways(message.topic)
            if ways is None:
                return None
        turn = self._turns[ways.wire_topic] + 1
        queue = pick_queue(ways.route.queues, turn, None)
        way = ways.by_queue.get(queue) or self._new_way(ways, queue, ready)
        connection = None if way is None else self._peers.open_connection(way.address)
        if way is None or connection is None:
            return None
        if self._config.attempt_timeout_s is not None:
            timeout_s = min(timeout_s, self._config.attempt_timeout_s)
        fill = way.template.fill
        now_ms = self._clock.now_ms()
        frame_of = partial(fill, now_ms, ready.properties, message.body, message.flag, 0)
        call = connection.begin_call(_SEND, frame_of, timeout_s, now_s)
        if call is None:
            return None
        self._turns[ways.wire_topic] = turn
        return FirstAttempt(way.queue, way.address, call, connection)

    def _new_ways(self, topic: str) -> _Ways | None:
        wire_topic = wrapped(self._config.namespace, topic)
        route = self._routes.known(wire_topic)
        if route is None:
            return None
        ways = self._ways[topic] = _Ways(route, wire_topic, {})
        return ways

    def _new_way(self, ways: _Ways, queue: QueueRef, ready: Ready) -> _Way | None:
        address = ways.route.masters.get(queue.broker_name)
        if address is None:
            return None
        if self._config.fast_port:
            address = fast_address(address)
        header = header_of(outgoing_of(ready, self._config), queue, self._config, 0)
        template = SendTemplate(RequestCode.SEND_MESSAGE_V2, header)
        shown_queue = queue._replace(topic=ready.message.topic)
        way = ways.by_queue[queue] = _Way(shown_queue, address, template)
        return way


def first_receipt(ready: Ready, attempt: FirstAttempt, reply: Command) -> SendReceipt | None:
    """None unless it is stored, where it was sent to."""
    if reply.code != _SUCCESS:
        return None
    try:
        header = _read_reply(reply.fields)
    except ProtocolError:
        return None
    if header.queue_id != attempt.queue.queue_id:
        return None
    return SendReceipt(
        ready.message_id,
        attempt.queue,
        header.queue_offset,
        header.msg_id,
        header.transaction_id,
        header.recall_handle,
        header.region_id,
        header.is_traced is not False,
    )
