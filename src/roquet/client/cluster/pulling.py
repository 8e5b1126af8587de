"""One pull: from a queue and an offset to messages, or to the reply that there are none.

The broker holds a pull that may wait until a message arrives or its time is up; "push" is nothing
but such long polls. The reply has the offset of the next pull.
"""

from collections.abc import Awaitable, Callable
from enum import Enum, auto
from functools import partial
from typing import Final, NamedTuple, final

from roquet.client.callbacks import selected
from roquet.client.cluster.requests import Requests
from roquet.client.cluster.routes import MASTER_ID, RouteBook
from roquet.client.errors import RequestRefused, Unreachable
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage, received_messages
from roquet.net.errors import NetError
from roquet.protocol.codes import PullFlag, RequestCode, ResponseCode
from roquet.protocol.command import OUR_LANGUAGE, Command
from roquet.protocol.errors import ProtocolError
from roquet.protocol.fields import header_reader
from roquet.protocol.headers.messages import (
    PullMessageHeader,
    PullMessageReplyHeader,
)
from roquet.protocol.subscription import ExpressionType, Subscription
from roquet.protocol.templates.json_templates import PullTemplate

# How long a broker may hold a pull, and how much longer its reply may take.
SUSPEND_S: Final = 15.0
_ANSWER_S: Final = 15.0
# The most bytes of a pull that names a size: more makes either side wait for the other.
PULL_SIZE_MAX: Final = 352 * 1024

_read_reply = header_reader(PullMessageReplyHeader)


class PullStatus(Enum):
    """The result of a pull."""

    FOUND = auto()
    NOTHING_NEW = auto()
    NOTHING_MATCHED = auto()  # there were messages, but none passed the filter
    OUT_OF_RANGE = auto()  # the queue starts after the offset, or ends before it


class PulledRecords(NamedTuple):
    """Records as the broker stores them. `is_newest` if a master sent them: a slave may lag."""

    status: PullStatus
    records: bytes
    next_offset: int
    min_offset: int
    max_offset: int
    is_newest: bool


class Pulled(NamedTuple):
    """The messages of one pull, the offset of the next one, and the bounds of the queue.

    For example:

        with PullConsumer("127.0.0.1:9876", "archive") as consumer:
            queue = consumer.queues("orders")[0]
            pulled = consumer.pull(queue, 0)
            print(pulled.status, len(pulled.messages), pulled.next_offset)
    """

    status: PullStatus
    messages: list[ReceivedMessage]
    next_offset: int
    min_offset: int
    max_offset: int


_STATUSES: Final = {
    int(ResponseCode.SUCCESS): PullStatus.FOUND,
    int(ResponseCode.PULL_NOT_FOUND): PullStatus.NOTHING_NEW,
    int(ResponseCode.PULL_RETRY_IMMEDIATELY): PullStatus.NOTHING_MATCHED,
    int(ResponseCode.PULL_OFFSET_MOVED): PullStatus.OUT_OF_RANGE,
}


class PullTerms(NamedTuple):
    """What a pull asks for at any offset. With `suspend_s` the broker waits for a message."""

    subscription: Subscription
    count_max: int
    suspend_s: float = SUSPEND_S
    # Sent along, for a broker that does not know it from a heartbeat.
    sends_subscription: bool = False
    is_lite: bool = False
    # For our brokers, which then honour any `count_max`.
    size_max: int | None = None


class PullOrder(NamedTuple):
    """One pull of a queue."""

    queue: QueueRef
    terms: PullTerms
    offset: int
    # Committed along, which saves a request, where it cannot undo a later commit.
    commit_offset: int | None = None


@final
class Puller:
    """Pulls for one group. Reads from the slave that a busy master suggests."""

    def __init__(
        self,
        requests: Requests,
        routes: RouteBook,
        group: str,
        namespace: str | None = None,
        *,
        message_filter: Callable[[ReceivedMessage], bool] | None = None,
    ) -> None:
        """Messages that the filter rejects are left out."""
        self._message_filter = message_filter
        self._requests = requests
        self._routes = routes
        self._group = group
        self._namespace = namespace
        self._suggested: dict[QueueRef, int] = {}
        # Brokers that process the requests of a connection in their order. Apache's have a pool of
        # threads for pulls and one for commits: an offset that came with a pull may be stored after
        # a later commit, the one of a consumer that closes, and undo it.
        self._in_order: set[str] = set()
        # Of the last pull of each queue: the next one mostly has the same terms.
        self._templates: dict[QueueRef, tuple[PullTerms, PullTemplate]] = {}

    async def pull(self, order: PullOrder) -> Pulled:
        """Raises Unreachable or RequestRefused."""
        return self._pulled(order, await self.pull_records(order))

    async def pull_records(self, order: PullOrder) -> PulledRecords:
        """The same for callers that decode records themselves, and check tags again."""
        queue = order.queue
        broker_id, address = self._replica(queue)
        # Only a master stores offsets.
        may_commit = broker_id == MASTER_ID and address in self._in_order
        flags = _flags(order, may_commit=may_commit)
        try:
            reply = await self._call(order, address, flags)
        except NetError as error:
            # The next attempt starts with the master.
            self._suggested.pop(queue, None)
            raise Unreachable(queue.broker_name, str(error)) from error
        if reply.language == OUR_LANGUAGE:
            self._in_order.add(address)
        else:
            self._in_order.discard(address)
        return self._records(queue, broker_id, address, reply)

    def forget(self, queue: QueueRef) -> None:
        self._suggested.pop(queue, None)
        self._templates.pop(queue, None)

    def _replica(self, queue: QueueRef) -> tuple[int, str]:
        addresses = self._routes.broker(queue.broker_name)
        wanted = self._suggested.get(queue, MASTER_ID)
        if wanted in addresses:
            return wanted, addresses[wanted]
        if not addresses:
            self._routes.renew_soon(queue.topic)
            raise Unreachable(queue.broker_name, "name servers list no address for it")
        # While the master is down, a slave is read.
        return min(addresses.items())

    def _call(self, order: PullOrder, address: str, flags: int) -> Awaitable[Command]:
        timeout_s = order.terms.suspend_s + _ANSWER_S
        connection = self._requests.peers.open_connection(address)
        if connection is None or self._requests.is_signed:
            return self._requests.call(address, _PULL, self._header(order, flags), timeout_s)
        fill = self._template(order).fill
        frame_of = partial(fill, order.offset, flags, order.commit_offset or 0)
        return connection.call_by(_PULL, frame_of, timeout_s)

    def _template(self, order: PullOrder) -> PullTemplate:
        terms, template = self._templates.get(order.queue, (None, None))
        if template is None or terms != order.terms:
            template = PullTemplate(self._header(order, 0))
            self._templates[order.queue] = (order.terms, template)
        return template

    def _header(self, order: PullOrder, flags: int) -> PullMessageHeader:
        terms, subscription = order.terms, order.terms.subscription
        return PullMessageHeader(
            consumer_group=self._group,
            topic=order.queue.topic,
            queue_id=order.queue.queue_id,
            queue_offset=order.offset,
            max_msg_nums=terms.count_max,
            sys_flag=flags,
            commit_offset=order.commit_offset or 0,
            suspend_timeout_millis=round(terms.suspend_s * 1000),
            sub_version=subscription.version,
            subscription=subscription.expression if terms.sends_subscription else None,
            expression_type=subscription.expression_type,
            max_msg_bytes=terms.size_max,
            broker_name=order.queue.broker_name,
        )

    def _records(
        self, queue: QueueRef, broker_id: int, address: str, reply: Command
    ) -> PulledRecords:
        status = _STATUSES.get(reply.code)
        if status is None:
            raise RequestRefused(address, reply.code, reply.remark)
        try:
            header = _read_reply(reply.fields)
        except ProtocolError as error:
            raise _invalid(queue, error) from None
        self._suggested[queue] = header.suggest_which_broker_id
        return PulledRecords(
            status,
            reply.body if status is PullStatus.FOUND else b"",
            header.next_begin_offset,
            header.min_offset,
            header.max_offset,
            broker_id == MASTER_ID,
        )

    def _pulled(self, order: PullOrder, found: PulledRecords) -> Pulled:
        try:
            messages = received_messages(found.records, order.queue, self._namespace)
            subscription = order.terms.subscription
            # The broker compares hashes of tags, and two tags may have the same.
            if subscription.expression_type is ExpressionType.TAG and subscription.tags:
                messages = [each for each in messages if subscription.matches_tags(each.tags)]
        except ProtocolError as error:
            raise _invalid(order.queue, error) from None
        if self._message_filter is not None:
            messages = selected(self._message_filter, messages)
        return Pulled(found.status, messages, found.next_offset, found.min_offset, found.max_offset)


def _flags(order: PullOrder, *, may_commit: bool) -> int:
    terms = order.terms
    flags = 0
    if terms.suspend_s > 0:
        flags |= _SUSPEND
    if order.commit_offset is not None and may_commit:
        flags |= _COMMIT
    if terms.sends_subscription:
        flags |= _SUBSCRIPTION
    if terms.is_lite:
        flags |= _LITE
    return flags


def _invalid(queue: QueueRef, error: ProtocolError) -> Unreachable:
    return Unreachable(queue.broker_name, f"invalid response: {error}")


_PULL: Final = RequestCode.PULL_MESSAGE
_COMMIT: Final = int(PullFlag.COMMIT_OFFSET)
_SUSPEND: Final = int(PullFlag.SUSPEND)
_SUBSCRIPTION: Final = int(PullFlag.SUBSCRIPTION)
_LITE: Final = int(PullFlag.LITE_PULL)
