"""What becomes of messages that a listener did not take: retried later, or dead letters.

The broker that has the message is asked to delay it. If it cannot, any broker takes a copy, in the
retry topic of the group. A message that failed too often becomes a dead letter there.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, final

from roquet.client.cluster.brokers import Brokers, reply_header
from roquet.client.cluster.routes import RouteBook
from roquet.client.errors import ClientError, RequestRefused, Unreachable
from roquet.client.names import wrapped
from roquet.client.push.config import ENDLESS
from roquet.client.push.outcome import AT_ONCE_DEAD, LEVELS_S, Consequence, NotDone
from roquet.client.received import ReceivedMessage
from roquet.net.service import Services
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.errors import ProtocolError
from roquet.protocol.headers.messages import (
    SendBackHeader,
    SendMessageHeaderV2,
    SendMessageReplyHeader,
    ViewMessageHeader,
)
from roquet.protocol.messages.message import Property, SysFlag
from roquet.protocol.messages.message_id import parse_offset_id
from roquet.protocol.messages.properties import properties_text
from roquet.protocol.messages.record import read_record
from roquet.protocol.names import RETRY_PREFIX, TEMPLATE_TOPIC

log = logging.getLogger(__name__)

# Before this consumer delivers a message again that no broker took back.
_LOCAL_PAUSE_S: Final = 5.0

_SHOWN_COUNT_MAX: Final = 1000

Messages = list[ReceivedMessage]

# Java's name of the producer inside each client.
_INNER_PRODUCER: Final = "CLIENT_INNER_PRODUCER"
_TEMPLATE_QUEUE_COUNT: Final = 4
# The first retry waits for level 3, which is ten seconds, and each one a level longer.
FIRST_LEVEL: Final = 3
_REASON_SIZE_MAX: Final = 1000
# How often, and with which pause, it is looked whether a copy has become safe.
_LOOKS_MAX: Final = 10
_LOOK_PAUSE_S: Final = 1.0
_BODY_FLAGS: Final = int(SysFlag.COMPRESSED | SysFlag.COMPRESSION_MASK)
# The master stored it, but it may be lost with it: unknown, not done.
_NOT_YET_SAFE: Final = frozenset(
    {
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    }
)
# Set when the message was first sent, or by brokers since.
_NOT_COPIED: Final = (
    Property.DELAY,
    Property.TRANSACTION_PREPARED,
    Property.CHECKSUM,
    Property.TIMER_DELAY_S,
    Property.TIMER_DELAY_MS,
    Property.TIMER_DELIVER_MS,
    Property.TIMER_OUT_MS,
    # Of the pop that delivered it; a later one would be answered with it.
    Property.POP_CHECK_POINT,
)


@final
class Retries:
    """Sends failed messages back to a broker, in the background, until one takes them."""

    def __init__(
        self,
        send_back: "SendBack",
        retry_count_max: int,
        services: Services,
        note_error: Callable[[str], None],
        on_exit: Callable[[SystemExit], None],
    ) -> None:
        """`on_exit` gets a SystemExit of a listener, which ends `run`."""
        self._on_exit = on_exit
        # Places in the program whose tracebacks have been logged.
        self._shown: set[tuple[type[BaseException], object]] = set()
        self._send_back = send_back
        self._services = services
        self._note_error = note_error
        self.retry_count_max = retry_count_max
        self._busy_count = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def note(self, error: BaseException, messages: Messages, what_follows: str) -> None:
        """Logs a failure, and sets the last error of the consumer."""
        what = described(messages[0])
        self._note_error(f"{what}: {error!r}")
        if len(messages) > 1:
            what = f"{what} and {len(messages) - 1} more"
        if isinstance(error, NotDone):
            log.info("%s not consumed (%s): %s", what, error, what_follows)
        elif self._is_new(error):
            log.warning("%s: %s", what, what_follows, exc_info=error)
        else:
            log.warning("%s failed as before (%r): %s", what, error, what_follows)
        if isinstance(error, SystemExit):
            self._on_exit(error)

    def _is_new(self, error: BaseException) -> bool:
        """Whether no error was raised there before: one traceback of each is enough."""
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        key = (type(error), None if place is None else (place.tb_frame.f_code, place.tb_lineno))
        if key in self._shown:
            return False
        if len(self._shown) >= _SHOWN_COUNT_MAX:
            self._shown.clear()
        self._shown.add(key)
        return True

    def is_over(self, message: ReceivedMessage) -> bool:
        """Whether it has no retries left."""
        return message.retry_count >= self.retry_count_max

    def later(
        self,
        messages: Messages,
        error: BaseException,
        delay_level: int,
        on_sent: Callable[[ReceivedMessage], None],
        on_kept: Callable[[Messages], None],
    ) -> None:
        """After the `error` of a listener. Calls `on_sent` with each message that a broker took;
        the others are delivered again from here, by `on_kept`."""

        async def send() -> None:
            kept = await self._sent(messages, error, delay_level, on_sent)
            if kept:
                await asyncio.sleep(_LOCAL_PAUSE_S)
                on_kept(kept)

        self._services.once("send back", send)

    def send_to_dlq(
        self, messages: Messages, error: BaseException, on_end: Callable[[Messages], None]
    ) -> None:
        """Makes dead letters of messages without retries left; calls `on_end` with those that no
        broker took."""

        async def send() -> None:
            on_end(await self._sent(messages, error, AT_ONCE_DEAD, lambda _message: None))

        self._services.once("send to dead letters", send)

    async def until_idle(self, timeout_s: float) -> None:
        """Waits that long for messages that are being sent."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._is_idle.wait()

    async def _sent(
        self,
        messages: Messages,
        cause: BaseException,
        delay_level: int,
        on_sent: Callable[[ReceivedMessage], None],
    ) -> Messages:
        kept = []
        self._busy_count += 1
        self._is_idle.clear()
        try:
            for message in messages:
                try:
                    if delay_level == AT_ONCE_DEAD or self.is_over(message):
                        await self._send_back.send_to_dlq(message, cause)
                    else:
                        await self._send_back.send_back(message, delay_level, self.retry_count_max)
                except ClientError as error:
                    log.warning("sending back %r failed, retrying here: %s", message, error)
                    message.local_retry_count += 1
                    kept.append(message)
                else:
                    on_sent(message)
        finally:
            self._busy_count -= 1
            if not self._busy_count:
                self._is_idle.set()
        return kept


def described(message: ReceivedMessage) -> str:
    """A message by what operators search for: its id, its keys, its place."""
    queue = message.queue
    place = f"{queue.topic} {queue.broker_name}:{queue.queue_id}:{message.queue_offset}"
    try:
        message_id, keys = message.message_id, " ".join(message.keys)
    except ProtocolError:
        return f"invalid message of {place}"
    return f"message {message_id}{f' (key {keys})' if keys else ''} of {place}"


def next_try(message: ReceivedMessage, retry_count_max: int, consequence: Consequence) -> str:
    """The failed attempt of a message that a broker delays, and the next one, for the log."""
    failed = f"failed try {message.retry_count + 1} of {retry_count_max + 1}"
    if consequence.is_dead or message.retry_count >= retry_count_max:
        return f"{failed}, it is a dead letter now"
    level = consequence.delay_level or FIRST_LEVEL + message.retry_count
    # How long that is, its broker decides (messageDelayLevel).
    default = in_words(LEVELS_S[min(level, len(LEVELS_S)) - 1])
    return f"{failed}, next one after its broker's delay level {level}, {default} by default"


def next_try_in_order(message: ReceivedMessage, retry_count_max: int, pause_s: float) -> str:
    """The same where the queue pauses until the message is tried again."""
    tries = "" if retry_count_max == ENDLESS else f" of {retry_count_max + 1}"
    return f"failed try {message.retry_count + 1}{tries}, next one in {in_words(pause_s)}"


def in_words(seconds: float) -> str:
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


@final
class SendBack:
    """For one group, as brokers know it."""

    def __init__(
        self, brokers: Brokers, routes: RouteBook, group: str, namespace: str | None
    ) -> None:
        self._brokers = brokers
        self._routes = routes
        self._group = group
        self._namespace = namespace
        self.retry_topic: Final = RETRY_PREFIX + group

    async def send_back(
        self, message: ReceivedMessage, delay_level: int, retry_count_max: int
    ) -> None:
        """Raises ClientError when no broker took it."""
        try:
            await self._ask_its_broker(message, delay_level, retry_count_max)
        except (Unreachable, RequestRefused) as error:
            log.info("sending back %r failed, copying it to the retry topic: %s", message, error)
            retry_count = message.retry_count + 1
            level = delay_level if delay_level > 0 else FIRST_LEVEL + retry_count - 1
            marks = {Property.DELAY: str(level)}
            await self._copy(message, retry_count, retry_count_max, marks)

    async def send_to_dlq(self, message: ReceivedMessage, error: BaseException) -> None:
        """Makes a dead letter of it, with the reason. Raises ClientError when no broker took it."""
        count = message.retry_count
        try:
            # One attempt more than allowed; a send-back could not add the reason.
            await self._copy(message, count + 1, count, dlq_properties(error, count + 1))
        except ClientError as refused:
            log.info("%r goes to the dead letters without a reason: %s", message, refused)
            await self._ask_its_broker(message, AT_ONCE_DEAD, count)

    async def _copy(
        self,
        message: ReceivedMessage,
        retry_count: int,
        retry_count_max: int,
        marks: Mapping[str, str],
    ) -> None:
        """Into the retry topic; with more retries than allowed it becomes a dead letter.

        Raises ClientError when no broker took it.
        """
        try:
            properties = self._properties(message, marks)
            record = message.record
        except ProtocolError as error:
            raise Unreachable(message.queue.broker_name, f"invalid message: {error}") from None
        route = await self._routes.find(self.retry_topic)
        queues = random.sample(route.queues, len(route.queues))
        # One queue of each broker.
        for queue in {queue.broker_name: queue for queue in queues}.values():
            header = SendMessageHeaderV2(
                producer_group=_INNER_PRODUCER,
                topic=self.retry_topic,
                default_topic=TEMPLATE_TOPIC,
                default_topic_queue_nums=_TEMPLATE_QUEUE_COUNT,
                queue_id=queue.queue_id,
                sys_flag=record.sys_flag & _BODY_FLAGS,
                born_timestamp=record.born_timestamp,
                flag=record.flag,
                properties=properties,
                reconsume_times=retry_count,
                max_reconsume_times=retry_count_max,
                broker_name=queue.broker_name,
            )
            try:
                await self._send_copy(queue.broker_name, header, message)
            except (RequestRefused, Unreachable) as error:
                last_error: ClientError = error
            else:
                return
        raise last_error

    async def _send_copy(
        self, broker_name: str, header: SendMessageHeaderV2, message: ReceivedMessage
    ) -> None:
        """Raises RequestRefused, and Unreachable also where the copy does not become safe."""
        code, body = RequestCode.SEND_MESSAGE_V2, message.record.body
        address = self._brokers.master(broker_name)
        reply = await self._brokers.ask(address, code, header, body, accepts=_NOT_YET_SAFE)
        if reply.code == ResponseCode.SUCCESS:
            return
        # A broker shows what is safe by its own policy, and nothing else; one with a weak policy
        # shows it at once. To send it again blindly would make copies of copies.
        stored = reply_header(SendMessageReplyHeader, reply, broker_name)
        for _ in range(_LOOKS_MAX):
            if await self._is_readable(broker_name, stored, message.message_id):
                return
            await asyncio.sleep(_LOOK_PAUSE_S)
        raise Unreachable(broker_name, "stored, but not confirmed by a replica")

    async def _is_readable(
        self, broker_name: str, stored: SendMessageReplyHeader, message_id: str
    ) -> bool:
        """Whether the current master has it, which may be another one by now."""
        try:
            offset = parse_offset_id(stored.msg_id).physical_offset
            header = ViewMessageHeader(offset=offset, broker_name=broker_name)
            view = RequestCode.VIEW_MESSAGE_BY_ID
            reply = await self._brokers.ask_master(broker_name, view, header)
            return read_record(reply.body).properties.get(Property.UNIQUE_KEY) == message_id
        except (RequestRefused, Unreachable, ProtocolError):
            return False

    async def _ask_its_broker(
        self, message: ReceivedMessage, delay_level: int, retry_count_max: int
    ) -> None:
        broker_name = message.queue.broker_name
        try:
            header = SendBackHeader(
                offset=message.record.physical_offset,
                group=self._group,
                delay_level=delay_level,
                origin_msg_id=message.message_id,
                origin_topic=wrapped(self._namespace, message.topic),
                max_reconsume_times=retry_count_max,
                broker_name=broker_name,
            )
        except ProtocolError as error:
            raise Unreachable(broker_name, f"invalid message: {error}") from None
        await self._brokers.ask_master(broker_name, RequestCode.CONSUMER_SEND_MSG_BACK, header)

    def _properties(self, message: ReceivedMessage, marks: Mapping[str, str]) -> str:
        named = dict(message.properties)
        for name in _NOT_COPIED:
            named.pop(name, None)
        named[Property.RETRY_TOPIC] = wrapped(self._namespace, message.topic)
        named.setdefault(Property.ORIGIN_MESSAGE_ID, message.message_id)
        return properties_text(named | dict(marks))


def dlq_properties(error: BaseException, try_count: int) -> dict[str, str]:
    """Why and when it failed, as properties of a dead letter."""
    # The separators of properties are replaced.
    reason = str(error).replace("\x01", " ").replace("\x02", " ").strip()[:_REASON_SIZE_MAX]
    return {
        Property.DEAD_REASON: reason or type(error).__name__,
        Property.DEAD_ERROR: type(error).__name__,
        Property.DEAD_TRIES: str(try_count),
    }
