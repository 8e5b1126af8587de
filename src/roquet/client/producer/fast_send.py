"""The first attempt of a message that goes as it is to any queue: nothing is left to decide.

It is made at once, if the route is known and the connection open, without all that only retries,
hooks and signatures need. Whatever it ends in but "stored" is judged in `sender.py`, which retries
if that is worth it. Both make the same frames: they share the templates and the rounds of queues.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol, final

import msgspec

from roquet.client.cluster.instance import ClientInstance
from roquet.client.cluster.requests import fast_address
from roquet.client.cluster.routes import Route
from roquet.client.config import ProducerConfig
from roquet.client.hooks import MessageKind
from roquet.client.names import check_topic, wrapped
from roquet.client.producer.fast_batches import FastMessages
from roquet.client.producer.outgoing import (
    Outgoing,
    Ready,
    bare_ready,
    header_of,
    is_compressed,
    outgoing_of,
    taken,
)
from roquet.client.producer.queue_choice import QueueRounds
from roquet.client.producer.receipt import SendReceipt
from roquet.client.queue_ref import QueueRef
from roquet.clock import Clock
from roquet.net.connection import Connection
from roquet.net.peers import Peers
from roquet.net.pending_calls import PendingCall
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.errors import ProtocolError
from roquet.protocol.fields import header_reader
from roquet.protocol.headers.messages import SendMessageReplyHeader
from roquet.protocol.messages.message import Message
from roquet.protocol.messages.message_id import UniqueIdMaker
from roquet.protocol.templates.send_request import SendTemplate

SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
_SUCCESS: Final = int(ResponseCode.SUCCESS)
_NORMAL: Final = MessageKind.NORMAL

_read_reply = header_reader(SendMessageReplyHeader)


@final
class SendTemplates:
    """The requests of one producer, prepared for each queue and kind of request."""

    def __init__(self, config: ProducerConfig) -> None:
        self._config = config
        self._templates: dict[tuple[QueueRef, RequestCode], SendTemplate] = {}

    def of(self, outgoing: Outgoing, queue: QueueRef) -> SendTemplate:
        key = queue, outgoing.code
        template = self._templates.get(key)
        if template is None:
            header = header_of(outgoing, queue, self._config, 0)
            template = self._templates[key] = SendTemplate(outgoing.code, header)
        return template


class QueuePath(msgspec.Struct):
    """To one queue. `queue` has the topic as the caller knows it."""

    queue: QueueRef
    wire_topic: str
    address: str
    template: SendTemplate


class _TopicPaths(msgspec.Struct):
    """To the queues of one topic, as far as they were used, as long as the route is the same."""

    route: Route
    wire_topic: str
    by_queue: dict[QueueRef, QueuePath]


class EndedAttempt(Protocol):
    """The first attempt, whoever made it, for `sender.py` to judge."""

    @property
    def queue(self) -> QueueRef: ...
    @property
    def address(self) -> str: ...
    def reply(self) -> Command:
        """What it ended in. Raises NetError."""


class FirstAttempt(msgspec.Struct):
    """An attempt in flight. A caller that stops waiting for it must end it."""

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
class FastSends:
    """Starts first attempts. `rounds` and `templates` are those of the sender."""

    def __init__(
        self,
        config: ProducerConfig,
        instance: ClientInstance,
        clock: Clock,
        rounds: QueueRounds,
        templates: SendTemplates,
    ) -> None:
        self._config = config
        self._routes = instance.routes
        self._peers = instance.peers
        self._clock = clock
        self._rounds = rounds
        self._templates = templates
        self._paths: dict[str, _TopicPaths] = {}

    def start(self, ready: Ready, timeout_s: float, now_s: float) -> FirstAttempt | None:
        """None if there is more to do than to send it; then nothing was done."""
        path = self.next_path(ready)
        if path is None:
            return None
        connection = self._peers.open_connection(path.address)
        if connection is not None:
            timeout_s = self.attempt_timeout_s(timeout_s)
            call = connection.begin_call(SEND, self.frame_of(path, ready), timeout_s, now_s)
            if call is not None:
                return FirstAttempt(path.queue, path.address, call, connection)
        self.put_back(path)
        return None

    def next_path(self, ready: Ready) -> QueuePath | None:
        """To the queue whose turn it is. None if there is more to do than to send the message."""
        message = ready.message
        if (
            type(message) is not Message
            or ready.kind is not _NORMAL
            or ready.is_request
            or is_compressed(message, self._config)
        ):
            return None
        paths = self._paths.get(message.topic)
        if paths is None or self._routes.known(paths.wire_topic) is not paths.route:
            paths = self._new_paths(message.topic)
            if paths is None:
                return None
        queue = self._rounds.next(paths.route.queues)
        path = paths.by_queue.get(queue) or self._new_path(paths, queue, ready)
        if path is None:
            self._rounds.put_back(paths.wire_topic)
        return path

    def put_back(self, path: QueuePath) -> None:
        """The last path was not used: its queue is the next one again."""
        self._rounds.put_back(path.wire_topic)

    def frame_of(self, path: QueuePath, ready: Ready) -> Callable[[int], bytes]:
        """The frame of a message for an opaque."""
        message = ready.message
        now_ms = self._clock.now_ms()
        return partial(path.template.fill, now_ms, ready.properties, message.body, message.flag, 0)

    def attempt_timeout_s(self, timeout_s: float) -> float:
        limit_s = self._config.attempt_timeout_s
        return timeout_s if limit_s is None else min(timeout_s, limit_s)

    def _new_paths(self, topic: str) -> _TopicPaths | None:
        wire_topic = wrapped(self._config.namespace, topic)
        route = self._routes.known(wire_topic)
        if route is None:
            return None
        paths = self._paths[topic] = _TopicPaths(route, wire_topic, {})
        return paths

    def _new_path(self, paths: _TopicPaths, queue: QueueRef, ready: Ready) -> QueuePath | None:
        address = paths.route.masters.get(queue.broker_name)
        if address is None:
            return None
        if self._config.fast_port:
            address = fast_address(address)
        template = self._templates.of(outgoing_of(ready, self._config), queue)
        shown_queue = queue._replace(topic=ready.message.topic)
        path = QueuePath(shown_queue, paths.wire_topic, address, template)
        paths.by_queue[queue] = path
        return path


class ThreadSends(NamedTuple):
    """What a thread needs to make first attempts on its own. It shares only what the loop's thread
    may change at any time: routes, connections and turns; templates and ids are its own."""

    sends: FastSends
    messages: FastMessages
    unique_ids: UniqueIdMaker
    peers: Peers


def made_ready(
    message: Message,
    fast_messages: FastMessages,
    unique_ids: UniqueIdMaker,
    config: ProducerConfig,
    clock: Clock,
) -> Ready:
    """A message to which nothing is added but its id. Raises BadArgument."""
    if type(message) is Message:
        check_topic(message.topic)
        ready = fast_messages.ready(message, message.topic)
        if ready is not None:
            return ready
    message = taken(message)
    message_id = message.message_id or unique_ids.make(clock.now_ms())
    return bare_ready(message, message_id, config)


def first_receipt(ready: Ready, attempt: EndedAttempt, reply: Command) -> SendReceipt | None:
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
