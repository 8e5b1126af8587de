"""Clients of the endpoint as members of groups of the broker, and the messages that they hold.

A push consumer leaves it to the server how long its messages are in flight: for as long as it
lives, and when it is gone they are redelivered at once.
"""

import logging
from typing import NamedTuple

from roquet.broker.broker import Broker
from roquet.broker.membership import make_retry_topic, notify_members_changed
from roquet.broker.pop.acking import change_time
from roquet.broker.pop.in_flight import PopKey, QueueOfGroup
from roquet.broker.tables.clients import Client
from roquet.grpc.clients import (
    HELD_COUNT_MAX,
    HELD_S_MAX,
    RENEW_BEFORE_MS,
    GrpcClient,
    GrpcClients,
)
from roquet.grpc.receives import RENEWED_MS
from roquet.net.errors import Refused
from roquet.protocol.bodies.clients import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    MessageModel,
)
from roquet.protocol.codes import VERSION_5_0_0
from roquet.protocol.messages.pop_receipt import ORDERED_QUEUE_ID, Receipt

log = logging.getLogger(__name__)


class Held(NamedTuple):
    """A message that is in flight for as long as its client lives."""

    queue: QueueOfGroup
    receipt: Receipt
    since_s: float


def register(broker: Broker, client: GrpcClient[Held]) -> None:
    """With its settings, and again with each heartbeat. Raises Refused."""
    clock = broker.clock
    member = Client(
        client.client_id,
        client.peer,
        client.language or None,
        VERSION_5_0_0,
        clock.now_ms(),
        clock.monotonic_s(),
    )
    for topic in client.topics:
        broker.clients.producers.register(topic, client, member)
    if client.group:
        data = ConsumerData(
            group_name=client.group,
            consume_type=ConsumeType.PUSH,
            message_model=MessageModel.CLUSTERING,
            consume_from_where=ConsumeFromWhere.LAST_OFFSET,
            subscription_data_set=client.subscriptions,
        )
        make_retry_topic(broker, data)
        if broker.clients.consumers.register(client, member, data):
            notify_members_changed(broker, client.group)


def hold(broker: Broker, client: GrpcClient[Held], queue: QueueOfGroup, receipt: Receipt) -> None:
    if len(client.held) < HELD_COUNT_MAX:
        client.held[receipt.text] = Held(queue, receipt, broker.clock.monotonic_s())


def release(broker: Broker, held: Held) -> None:
    """The message comes again at once, and it does not count as a delivery."""
    try:
        change_time(broker, held.queue, held.receipt, 0, is_suspended=True)
    except Refused as refused:
        log.warning("a message of %s is redelivered when its time is over: %s", held.queue, refused)


def renew(broker: Broker, clients: GrpcClients[Held]) -> int:
    """Those whose time is nearly over get more of it; how many."""
    now_s = broker.clock.monotonic_s()
    renewed_count = 0
    for client in clients:
        for text, held in tuple(client.held.items()):
            is_renewed = None if now_s - held.since_s > HELD_S_MAX else _is_renewed(broker, held)
            if is_renewed is None:
                client.held.pop(text, None)
            else:
                renewed_count += is_renewed
    return renewed_count


def _is_renewed(broker: Broker, held: Held) -> bool | None:
    """Whether it got more time; None if it is not in flight. The first receipt stays valid."""
    journal = broker.waiting.pops
    receipt = held.receipt
    if receipt.revive_queue_id == ORDERED_QUEUE_ID:
        ordered = journal.ordered.find(held.queue)
        outing = None if ordered is None else ordered.out.get(receipt.offset)
        if outing is None or outing.pop_time_ms != receipt.pop_time_ms:
            return None
        is_due = outing.due_ms - journal.steady_ms < RENEW_BEFORE_MS
        if is_due:
            change_time(broker, held.queue, receipt, RENEWED_MS)
        return is_due
    point = journal.in_flight.find(PopKey(held.queue, receipt.start_offset, receipt.pop_time_ms))
    if point is None or point.index_of(receipt.offset) is None:
        return None
    is_due = point.due_ms - journal.steady_ms < RENEW_BEFORE_MS
    if is_due:
        # In memory only: after a crash of the broker it comes again.
        journal.in_flight.postpone(point, journal.steady_ms + RENEWED_MS)
    return is_due
