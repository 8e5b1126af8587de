"""What connections, topics and groups cost a broker in memory, each by itself.

    connection   a client that has sent its heartbeat, as a producer of one group
    topic        8 queues without messages
    group        offsets that it has committed in the 8 queues of a topic

Memory is what the process keeps for itself (`RssAnon`); mapped files are the kernel's. It does not
depend on what else the machine does. Takes a minute.
"""

import re
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from roquet.protocol.bodies.body import write_body
from roquet.protocol.bodies.clients import Heartbeat, ProducerData
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.headers.groups import UpdateConsumerOffsetHeader
from tests.support.blocking_peer import BlockingPeer
from tests.support.our_cluster import OurBroker
from tests.support.topics import create_topic

COUNT: Final = 1_000
QUEUE_COUNT: Final = 8
TOPIC: Final = "bench"


def connect(broker: OurBroker, connections: ExitStack) -> None:
    for number in range(COUNT):
        peer = connections.enter_context(BlockingPeer(broker.address))
        producer = ProducerData(group_name="bench")
        heartbeat = Heartbeat(client_id=f"10.0.0.1@{number}", producer_data_set=[producer])
        assert peer.call(RequestCode.HEART_BEAT, body=write_body(heartbeat)).code == 0


def create_topics(broker: OurBroker, _: ExitStack) -> None:
    for number in range(COUNT):
        create_topic(broker.address, f"bench-{number}", QUEUE_COUNT)


def commit(broker: OurBroker, connections: ExitStack) -> None:
    create_topic(broker.address, TOPIC, QUEUE_COUNT)
    peer = connections.enter_context(BlockingPeer(broker.address))
    for number in range(COUNT):
        for queue_id in range(QUEUE_COUNT):
            header = UpdateConsumerOffsetHeader(
                consumer_group=f"bench-{number}", topic=TOPIC, queue_id=queue_id, commit_offset=0
            )
            reply = peer.call(RequestCode.UPDATE_CONSUMER_OFFSET, header)
            assert reply.code == ResponseCode.SUCCESS, reply.remark


def own_kb(broker: OurBroker) -> int:
    status = Path(f"/proc/{broker.process_id}/status").read_text()
    found = re.search(r"RssAnon:\s+(\d+) kB", status)
    assert found is not None, status
    return int(found[1])


def report(what: str, fill: Callable[[OurBroker, ExitStack], None]) -> None:
    with tempfile.TemporaryDirectory() as home, ExitStack() as connections:
        broker = connections.enter_context(OurBroker(Path(home)))
        before = own_kb(broker)
        fill(broker, connections)
        after = own_kb(broker)
    each = (after - before) / COUNT
    print(f"{what:12}{before / 1000:10.1f}{after / 1000:10.1f}{each:10.1f}", flush=True)


def main() -> None:
    print(f"{COUNT:,} of each{'MB before':>10}{'MB after':>10}{'kB each':>10}")
    report("connection", connect)
    report("topic", create_topics)
    report("group", commit)


if __name__ == "__main__":
    main()
