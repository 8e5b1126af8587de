"""Messages that a group wants again later go back to a broker, which delays them.

The broker that has the message is asked to do it by itself. If it cannot, any broker takes a copy,
in the retry topic of the group. A message that failed too often becomes a dead letter there.
"""

import logging
import random
from collections.abc import Mapping
from typing import Final, final

from roquet.client.cluster.brokers import Brokers
from roquet.client.cluster.routes import RouteBook
from roquet.client.errors import ClientError, RequestRefused, Unreachable
from roquet.client.names import wrapped
from roquet.client.push.outcome import AT_ONCE_DEAD
from roquet.client.received import ReceivedMessage
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.errors import ProtocolError
from roquet.protocol.headers.messages import SendBackHeader, SendMessageHeaderV2
from roquet.protocol.messages.message import Property, SysFlag
from roquet.protocol.messages.properties import properties_text
from roquet.protocol.names import RETRY_PREFIX, TEMPLATE_TOPIC

log = logging.getLogger(__name__)

# What Java calls the producer inside each client.
_INNER_PRODUCER: Final = "CLIENT_INNER_PRODUCER"
_TEMPLATE_QUEUE_COUNT: Final = 4
# A first repetition waits for level 3, which is ten seconds, and each one a level longer.
FIRST_LEVEL: Final = 3
_REASON_SIZE_MAX: Final = 1000
_BODY_FLAGS: Final = int(SysFlag.COMPRESSED | SysFlag.COMPRESSION_MASK)
# The master has it, if not as safely as it promises.
_STORED: Final = frozenset(
    {
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    }
)
# What was said about the message when it was sent the first time, or by brokers since.
_NOT_COPIED: Final = (
    Property.DELAY,
    Property.TRANSACTION_PREPARED,
    Property.CHECKSUM,
    Property.TIMER_DELAY_S,
    Property.TIMER_DELAY_MS,
    Property.TIMER_DELIVER_MS,
    Property.TIMER_OUT_MS,
)


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
            log.info("%r is not sent back but copied: %s", message, error)
            retry_count = message.retry_count + 1
            level = delay_level if delay_level > 0 else FIRST_LEVEL + retry_count - 1
            marks = {Property.DELAY: str(level)}
            await self._copy(message, retry_count, retry_count_max, marks)

    async def send_to_dlq(self, message: ReceivedMessage, error: BaseException) -> None:
        """Makes a dead letter of it that says why. Raises ClientError when no broker took it."""
        count = message.retry_count
        try:
            # One try more than allowed; the broker that has the message could add nothing to it.
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
        """Into the retry topic; with more retries than may be, it becomes a dead letter.

        Raises ClientError when no broker took it.
        """
        try:
            properties = self._properties(message, marks)
            record = message.record
        except ProtocolError as error:
            raise Unreachable(message.queue.broker_name, f"it sent nonsense: {error}") from None
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
                await self._brokers.ask_master(
                    queue.broker_name, RequestCode.SEND_MESSAGE_V2, header, record.body
                )
            except RequestRefused as error:
                if error.code in _STORED:
                    return
                last_error: ClientError = error
            except Unreachable as error:
                last_error = error
            else:
                return
        raise last_error

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
            raise Unreachable(broker_name, f"it sent nonsense: {error}") from None
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
    # Their separators are no part of a text that is read.
    reason = str(error).replace("\x01", " ").replace("\x02", " ").strip()[:_REASON_SIZE_MAX]
    return {
        Property.DEAD_REASON: reason or type(error).__name__,
        Property.DEAD_ERROR: type(error).__name__,
        Property.DEAD_TRIES: str(try_count),
    }
