"""Everything that a broker hands out of a topic, asked of it directly."""

from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.messages.record import split_records
from tests.faults.history import Queue
from tests.support.blocking_peer import BlockingPeer
from tests.support.common_requests import common_pull_header
from tests.support.our_cluster import OurBroker


def whole_queues(broker: OurBroker, topic: str, queue_count: int) -> dict[Queue, dict[int, bytes]]:
    """Bodies by queue and offset; of a topic that is gone there is nothing."""
    with BlockingPeer(broker.address) as peer:
        return {
            (broker.broker_name, number): _whole_queue(peer, topic, number)
            for number in range(queue_count)
        }


def _whole_queue(peer: BlockingPeer, topic: str, queue_id: int) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    offset = 0
    while True:
        reply = peer.call(RequestCode.PULL_MESSAGE, common_pull_header(topic, queue_id, offset))
        if reply.code != ResponseCode.SUCCESS:
            return found
        messages = split_records(reply.body)
        found.update((message.queue_offset, message.body) for message in messages)
        offset = messages[-1].queue_offset + 1
