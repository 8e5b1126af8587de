"""Peers that fill tables: each has a bound, what is over is refused, and memory stays.

The bounds are small here, so that few requests reach them.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from roquet.protocol.bodies.body import MessageQueue, write_body
from roquet.protocol.bodies.clients import ConsumerData, Heartbeat, ProducerData, SubscriptionData
from roquet.protocol.bodies.groups import QueueLockRequest
from roquet.protocol.bodies.name_server import BrokerRegistration, QueueData, TopicRoute
from roquet.protocol.bodies.topics import TopicConfig, TopicConfigTable
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import fields_of, fields_text
from roquet.protocol.headers.groups import UpdateConsumerOffsetHeader
from tests.faults.findings import Findings
from tests.faults.rig import Rig
from tests.support.common_requests import common_pull, common_send
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.process_memory import resident_size
from tests.support.raw_peer import RawPeer
from tests.support.topics import create_topic

_MEGABYTE: Final = 1 << 20
# What a server may grow by with each kind of flood: its bound, buffers, and the allocator's air.
_GROWTH_MAX: Final = 48 * _MEGABYTE
_TOPIC: Final = "flooded"
_QUEUE_COUNT: Final = 64
_AT_ONCE: Final = 200
_BROKER_BOUNDS: Final = {
    "autoCreateTopicMax": "100",
    "autoCreateGroupMax": "100",
    "maxQueueLocks": "500",
    "maxConsumerOffsets": "500",
    "maxMemberships": "500",
    "maxSubscriptionBytes": "500000",
    "maxWaitingRequests": "500",
}
_NAME_SERVER_BOUNDS: Final = {"maxKvConfigBytes": "200000", "maxRoutes": "500"}
_LONG: Final = "x" * 10_000


class _Flood(NamedTuple):
    """`request` makes the one of a number; `has_replies` is false for those that wait."""

    name: str
    request: Callable[[int], Command]
    has_replies: bool = True


def _lock(number: int) -> Command:
    queues = [
        MessageQueue(broker_name="our-broker", queue_id=each, topic=_TOPIC)
        for each in range(_QUEUE_COUNT)
    ]
    body = QueueLockRequest(client_id="c", consumer_group=f"locks-{number}", mq_set=queues)
    return Command(RequestCode.LOCK_BATCH_MQ, number, body=write_body(body))


def _lock_elsewhere(number: int) -> Command:
    queue = MessageQueue(broker_name="our-broker", queue_id=0, topic=f"{number}{_LONG}")
    body = QueueLockRequest(client_id=_LONG, consumer_group=f"{number}{_LONG}", mq_set=[queue])
    return Command(RequestCode.LOCK_BATCH_MQ, number, body=write_body(body))


def _commit(number: int) -> Command:
    header = UpdateConsumerOffsetHeader(
        consumer_group=f"made-up-{number}", topic=_TOPIC, queue_id=0, commit_offset=number
    )
    return Command(RequestCode.UPDATE_CONSUMER_OFFSET, number, fields=fields_of(header))


def _commit_elsewhere(number: int) -> Command:
    header = UpdateConsumerOffsetHeader(
        consumer_group="made-up-0", topic=_TOPIC, queue_id=number % 65_536, commit_offset=number
    )
    return Command(RequestCode.UPDATE_CONSUMER_OFFSET, number, fields=fields_of(header))


def _beat(number: int) -> Command:
    subscriptions = [SubscriptionData(topic=f"t-{each}", sub_string=_LONG) for each in range(20)]
    beat = Heartbeat(
        client_id=f"c-{number}",
        consumer_data_set=[
            ConsumerData(group_name=f"beats-{number}", subscription_data_set=subscriptions)
        ],
        producer_data_set=[ProducerData(group_name=f"beats-{number}")],
    )
    return Command(RequestCode.HEART_BEAT, number, body=write_body(beat))


def _beat_of_producer(number: int) -> Command:
    producers = [ProducerData(group_name=f"producers-{number}-{each}") for each in range(100)]
    beat = Heartbeat(client_id="c", consumer_data_set=[], producer_data_set=producers)
    return Command(RequestCode.HEART_BEAT, number, body=write_body(beat))


def _send(number: int) -> Command:
    return common_send(f"topic-{number}", b"x", opaque=number)


def _pull(number: int) -> Command:
    return common_pull(_TOPIC, number % _QUEUE_COUNT, 0, wait_ms=30_000, opaque=number)


def _put_kv(number: int) -> Command:
    fields = {"namespace": "flood", "key": f"k-{number}", "value": _LONG}
    return Command(RequestCode.PUT_KV_CONFIG, number, fields=fields_text(fields))


def _register(number: int) -> Command:
    topics = {
        name: TopicConfig(topic_name=name) for name in (f"r-{number}-{each}" for each in range(50))
    }
    body = BrokerRegistration(topics=TopicConfigTable(topic_config_table=topics))
    fields = {
        "clusterName": "c",
        "brokerName": f"b-{number}",
        "brokerId": "0",
        "brokerAddr": f"10.0.0.1:{number}",
        "haServerAddr": "10.0.0.1:1",
    }
    return Command(
        RequestCode.REGISTER_BROKER, number, fields=fields_text(fields), body=write_body(body)
    )


def _register_topic(number: int) -> Command:
    """Of a broker that was registered on the same connection."""
    if number == 1:
        return _register(number)
    route = TopicRoute(
        broker_datas=[],
        queue_datas=[QueueData(broker_name="b-1", read_queue_nums=1, write_queue_nums=1)],
    )
    return Command(
        RequestCode.REGISTER_TOPIC_IN_NAMESRV,
        number,
        fields=fields_text({"topic": f"made-up-{number}"}),
        body=write_body(route),
    )


_OF_BROKERS: Final = (
    _Flood("locks", _lock),
    _Flood("locks of queues that are not there", _lock_elsewhere),
    _Flood("offsets of groups that are not there", _commit),
    _Flood("offsets in queues that are not there", _commit_elsewhere),
    _Flood("subscriptions", _beat),
    _Flood("groups of producers", _beat_of_producer),
    _Flood("topics", _send),
    _Flood("pulls that wait", _pull, has_replies=False),
)
_OF_NAME_SERVERS: Final = (
    _Flood("key-value settings", _put_kv),
    _Flood("brokers", _register),
    _Flood("topics of the name server", _register_topic),
)


def flood(directory: Path, seed: int, count: int) -> Findings:
    return asyncio.run(_flood(directory, seed, count))


async def _flood(directory: Path, _seed: int, count: int) -> Findings:
    findings = Findings()
    file = directory / "namesrv.conf"
    file.write_text("".join(f"{key}={value}\n" for key, value in _NAME_SERVER_BOUNDS.items()))
    with (
        OurNameServer(directory / "names", "-c", str(file)) as names,
        OurBroker(directory / "broker", configuration=_BROKER_BOUNDS) as broker,
    ):
        create_topic(broker.address, _TOPIC, _QUEUE_COUNT)
        for server, floods in ((broker, _OF_BROKERS), (names, _OF_NAME_SERVERS)):
            for each in floods:
                await _try(server, each, count, findings)
        # It remembers no more than it took.
        broker.stop()
        broker.start()
        size = resident_size(broker.process_id)
        findings.figures["restarted with MB"] = size / _MEGABYTE
    return findings


async def _try(
    server: OurBroker | OurNameServer, flood: _Flood, count: int, findings: Findings
) -> None:
    port = int(server.address.rpartition(":")[2])
    size = resident_size(server.process_id)
    async with await RawPeer.connect(port) as peer:
        codes = await _flooded(peer, flood, count)
        # Whoever else is there is served.
        async with await RawPeer.connect(port) as other:
            await other.ask(Command(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER))
        growth = resident_size(server.process_id) - size
    findings.counts[flood.name] = count
    findings.figures["grown by MB"] = max(
        findings.figures.get("grown by MB", 0.0), growth / _MEGABYTE
    )
    if growth > _GROWTH_MAX:
        findings.violations.append(f"{flood.name}: {server} has grown by {growth:,} bytes")
    if not codes.keys() - {ResponseCode.SUCCESS} and flood.request is not _lock_elsewhere:
        findings.violations.append(f"{flood.name}: none of {count} was refused")


async def _flooded(peer: RawPeer, flood: _Flood, count: int) -> Counter[int]:
    codes: Counter[int] = Counter()
    for start in range(1, count + 1, _AT_ONCE):
        some = range(start, min(start + _AT_ONCE, count + 1))
        peer.send(*(flood.request(number) for number in some))
        if flood.has_replies:
            codes.update([(await peer.receive()).code for _ in some])
    if not flood.has_replies:
        # Those that may wait do; the others are answered.
        codes[(await peer.receive()).code] += 1
    return codes


BOUNDS: Final = Rig(
    "bounds",
    "requests that fill every table that peers can fill",
    flood,
    few=2_000,
    many=100_000,
)
