"""Requests to brokers with typed replies: offsets, members of groups, locks of queues.

A broker is addressed by name; routes resolve it. Requests about queues go to the master, which has
the newest state.
"""

import logging
import random
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final, TypeVar, final

from roquet.client.cluster.requests import Requests
from roquet.client.cluster.routes import MASTER_ID, RouteBook
from roquet.client.errors import RequestRefused, Unreachable
from roquet.client.queue_ref import QueueRef, queue_ref, wire_queue
from roquet.net.errors import NetError
from roquet.protocol.bodies.body import read_body, write_body
from roquet.protocol.bodies.groups import ConsumerIds, LockedQueues, QueueLockRequest
from roquet.protocol.bodies.offsets import ConsumerOffsetTable
from roquet.protocol.codes import VERSION_5_0_0, RequestCode, ResponseCode
from roquet.protocol.command import OUR_LANGUAGE, Command
from roquet.protocol.errors import ProtocolError
from roquet.protocol.fields import AddressedHeader, Header, NoFields, read_header
from roquet.protocol.headers.groups import (
    ConsumerListHeader,
    EarliestStoreTimeHeader,
    EarliestStoreTimeReplyHeader,
    GetMaxOffsetHeader,
    GetMinOffsetHeader,
    OffsetReplyHeader,
    QueryConsumerOffsetHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 5.0
_LOCK_TIMEOUT_S: Final = 1.0

H = TypeVar("H", bound=Header)


@final
class Brokers:
    """Every request raises Unreachable without a reply, and RequestRefused for an error reply."""

    def __init__(
        self,
        requests: Requests,
        routes: RouteBook,
        timeout_s: float = TIMEOUT_S,
        *,
        asks_slaves: bool = False,
    ) -> None:
        """With `asks_slaves` a slave answers for its queues and stores offsets while its master is
        down."""
        self._requests = requests
        self._routes = routes
        self._timeout_s = timeout_s
        self._asks_slaves = asks_slaves

    def master(self, broker_name: str) -> str:
        """The address of a master. Raises Unreachable."""
        address = self._routes.broker(broker_name).get(MASTER_ID)
        if address is None:
            raise Unreachable(broker_name, "name servers list no master for it")
        return address

    async def committed(self, group: str, queue: QueueRef) -> int | None:
        """The offset where the group resumes in a queue; None if it never committed there."""
        address = self._replica(queue.broker_name)
        return (await self.committed_at(address, group, [queue])).get(queue)

    async def committed_at(
        self, address: str, group: str, queues: Sequence[QueueRef]
    ) -> dict[QueueRef, int]:
        """The same for queues of one broker, without those where it never committed."""
        found: dict[QueueRef, int] = {}
        for queue in queues:
            reply = await self._consumer_offset(group, queue, zero_if_young=False, address=address)
            if reply is None:
                continue
            offset = reply_header(OffsetReplyHeader, reply, queue.broker_name).offset
            # 4.9 ignores `set_zero_if_not_found`: its 0 may mean that there is no offset, which
            # only its whole table shows.
            if not offset and reply.version < VERSION_5_0_0 and reply.language != OUR_LANGUAGE:
                kept = await self.kept_offsets(address)
                return {
                    each: offsets[each.queue_id]
                    for each in queues
                    if each.queue_id in (offsets := kept.get(f"{each.topic}@{group}", {}))
                }
            found[queue] = offset
        return found

    async def committed_or_young(
        self, group: str, queue: QueueRef, *, address: str | None = None
    ) -> int | None:
        """The same, but 0 for a group that is new to a topic whose messages are all in memory: a
        broker lets it start there. With an `address` no route is needed."""
        reply = await self._consumer_offset(group, queue, zero_if_young=None, address=address)
        if reply is None:
            return None
        return reply_header(OffsetReplyHeader, reply, queue.broker_name).offset

    async def kept_offsets(self, address: str) -> Mapping[str, Mapping[int, int]]:
        """All offsets of all groups that a broker stores: by "topic@group" and queue id."""
        reply = await self.ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET, NoFields())
        return reply_body(ConsumerOffsetTable, reply, address).offset_table

    async def commit(self, group: str, queue: QueueRef, offset: int) -> None:
        header = UpdateConsumerOffsetHeader(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            broker_name=queue.broker_name,
        )
        address = self._replica(queue.broker_name)
        await self.ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def min_offset(self, queue: QueueRef, *, address: str | None = None) -> int:
        header = GetMinOffsetHeader(
            topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name
        )
        return await self._offset(queue, RequestCode.GET_MIN_OFFSET, header, address)

    async def max_offset(self, queue: QueueRef) -> int:
        """The offset that the next message will get."""
        header = GetMaxOffsetHeader(
            topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name
        )
        return await self._offset(queue, RequestCode.GET_MAX_OFFSET, header)

    async def offset_at(self, queue: QueueRef, timestamp_ms: int) -> int:
        """Of the first message that is not older."""
        header = SearchOffsetHeader(
            topic=queue.topic,
            queue_id=queue.queue_id,
            timestamp=timestamp_ms,
            broker_name=queue.broker_name,
        )
        return await self._offset(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    async def earliest_ms(self, queue: QueueRef) -> int:
        """When the oldest message that is still there was stored."""
        header = EarliestStoreTimeHeader(
            topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name
        )
        code = RequestCode.GET_EARLIEST_MSG_STORETIME
        reply = await self.ask(self._replica(queue.broker_name), code, header)
        return reply_header(EarliestStoreTimeReplyHeader, reply, queue.broker_name).timestamp

    async def members(self, group: str, topic: str) -> list[str]:
        """The client ids of a group, as any broker of the topic knows them."""
        route = await self._routes.existing(topic)
        if route is None or not route.brokers:
            raise Unreachable(topic, "no broker has this topic")
        name = random.choice(list(route.brokers))  # noqa: S311  Any of them will do.
        addresses = route.brokers[name]
        address = addresses.get(MASTER_ID) or next(iter(addresses.values()))
        header = ConsumerListHeader(consumer_group=group, broker_name=name)
        reply = await self.ask(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
        return reply_body(ConsumerIds, reply, name).consumer_id_list

    async def lock(self, group: str, client_id: str, queues: Iterable[QueueRef]) -> set[QueueRef]:
        """Those queues that the client has locked now; all of them are of one broker."""
        name, body = _lock_request(group, client_id, queues)
        reply = await self.ask(
            self.master(name), RequestCode.LOCK_BATCH_MQ, AddressedHeader(), body, _LOCK_TIMEOUT_S
        )
        return set(map(queue_ref, reply_body(LockedQueues, reply, name).queues))

    async def unlock(self, group: str, client_id: str, queues: Iterable[QueueRef]) -> None:
        """Unlocks queues of one broker."""
        name, body = _lock_request(group, client_id, queues)
        await self.ask(
            self.master(name), RequestCode.UNLOCK_BATCH_MQ, AddressedHeader(), body, _LOCK_TIMEOUT_S
        )

    async def ask_master(
        self, broker_name: str, code: RequestCode, header: Header, body: bytes = b""
    ) -> Command:
        return await self.ask(self.master(broker_name), code, header, body)

    async def ask(
        self,
        address: str,
        code: RequestCode,
        header: Header,
        body: bytes = b"",
        timeout_s: float | None = None,
        accepts: Container[int] = (),
    ) -> Command:
        """Replies with codes that the caller `accepts` are returned, too."""
        if timeout_s is None:
            timeout_s = self._timeout_s
        try:
            reply = await self._requests.call(address, code, header, timeout_s, body)
        except NetError as error:
            raise Unreachable(address, str(error)) from error
        if reply.code != ResponseCode.SUCCESS and reply.code not in accepts:
            raise RequestRefused(address, reply.code, reply.remark)
        return reply

    async def _consumer_offset(
        self,
        group: str,
        queue: QueueRef,
        *,
        zero_if_young: bool | None,
        address: str | None = None,
    ) -> Command | None:
        header = QueryConsumerOffsetHeader(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            set_zero_if_not_found=zero_if_young,
            broker_name=queue.broker_name,
        )
        code = RequestCode.QUERY_CONSUMER_OFFSET
        try:
            return await self.ask(address or self._replica(queue.broker_name), code, header)
        except RequestRefused as refused:
            if refused.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise

    async def _offset(
        self, queue: QueueRef, code: RequestCode, header: Header, address: str | None = None
    ) -> int:
        reply = await self.ask(address or self._replica(queue.broker_name), code, header)
        return reply_header(OffsetReplyHeader, reply, queue.broker_name).offset

    def _replica(self, broker_name: str) -> str:
        addresses = self._routes.broker(broker_name)
        if self._asks_slaves and addresses and MASTER_ID not in addresses:
            return addresses[min(addresses)]
        return self.master(broker_name)


def by_broker(queues: Iterable[QueueRef]) -> dict[str, list[QueueRef]]:
    """The queues of each broker name."""
    parts: defaultdict[str, list[QueueRef]] = defaultdict(list)
    for queue in queues:
        parts[queue.broker_name].append(queue)
    return dict(parts)


def _lock_request(group: str, client_id: str, queues: Iterable[QueueRef]) -> tuple[str, bytes]:
    wire_queues = list(map(wire_queue, queues))
    names = {queue.broker_name for queue in wire_queues}
    assert len(names) == 1, f"queues of {len(names)} brokers in one request"
    request = QueueLockRequest(client_id=client_id, consumer_group=group, mq_set=wire_queues)
    return names.pop(), write_body(request)


def reply_header(header_type: type[H], reply: Command, broker: str) -> H:
    """Raises Unreachable for an invalid response."""
    try:
        return read_header(header_type, reply.fields)
    except ProtocolError as error:
        raise Unreachable(broker, f"invalid response: {error}") from None


B = TypeVar("B")


def reply_body(body_type: type[B], reply: Command, broker: str) -> B:
    """Raises Unreachable for an invalid response."""
    try:
        return read_body(body_type, reply.body)
    except ProtocolError as error:
        raise Unreachable(broker, f"invalid response: {error}") from None
