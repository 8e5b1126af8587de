"""kill -9 and power cuts under a broker whose messages are popped, by remoting and by gRPC.

What is out, acknowledged and due has to survive both (I11, `invisibility`). After a kill the page
cache has everything, whatever the broker flushes. After a power cut a broker with sync flush has
all that it has answered; with async flush it may lack what was answered within one flush interval.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from roquet import Admin, QueueRef, TopicSettings
from roquet.protocol.bodies.body import write_body
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.codes import RequestCode, ResponseCode
from tests.faults.findings import Findings
from tests.faults.pop_traffic import GROUPS, TOPIC, PopMix, PopTraffic
from tests.faults.rig import Rig
from tests.support.blocking_peer import BlockingPeer
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.ports import free_port

QUEUE_COUNT: Final = 2
SYNC, ASYNC = "SYNC_FLUSH", "ASYNC_FLUSH"
BROKER_NAME: Final = "broker-0"
# A broker serves after 0.3 s.
_STARTING_S: Final = 0.35
_KILLED_AGAIN: Final = 0.3


class PopStage(NamedTuple):
    broker: OurBroker
    traffic: PopTraffic

    async def finished(self) -> Findings:
        """What the clients saw, when everything has come to rest."""
        return seen_by(self.traffic, await self.traffic.finish())


def seen_by(traffic: PopTraffic, violations: list[str]) -> Findings:
    findings = Findings(violations=violations)
    promises = traffic.promises.values()
    findings.counts["sent"] = traffic.history.owed_count
    findings.counts["received"] = sum(each.received_count for each in promises)
    findings.counts["times changed"] = sum(each.changed_count for each in promises)
    findings.counts["acks answered"] = traffic.acked_count
    findings.counts["received again"] = traffic.history.duplicate_count()
    return findings


@asynccontextmanager
async def pop_stage(
    directory: Path,
    chance: Random,
    flush_mode: str,
    *,
    mix: PopMix | None = None,
    broker_directory: Path | None = None,
    broker_under: tuple[str, ...] = (),
) -> AsyncIterator[PopStage]:
    with ExitStack() as stack:
        names = stack.enter_context(OurNameServer(directory / "names"))
        port = free_port()
        broker = OurBroker(
            broker_directory or directory / "broker",
            names.address,
            broker_name=BROKER_NAME,
            configuration=broker_settings(flush_mode, port),
        )
        broker.under = broker_under
        stack.enter_context(broker)
        _create_topic(names.address)
        _create_groups(broker.address)
        queues = [QueueRef(TOPIC, BROKER_NAME, number) for number in range(QUEUE_COUNT)]
        async with PopTraffic(names.address, queues, chance, grpc_port=port, mix=mix) as traffic:
            yield PopStage(broker, traffic)


def broker_settings(flush_mode: str, grpc_port: int | None = None) -> Mapping[str, str]:
    endpoint = {} if grpc_port is None else {"grpcPort": str(grpc_port)}
    return {"flushDiskType": flush_mode, **endpoint}


def _create_topic(name_server: str) -> None:
    settings = TopicSettings(
        read_queue_count=QUEUE_COUNT,
        write_queue_count=QUEUE_COUNT,
        attributes={"message.type": "FIFO"},
    )
    with Admin(name_server) as admin:
        admin.create_topic(TOPIC, settings)


def _create_groups(address: str) -> None:
    with BlockingPeer(address) as peer:
        for group in GROUPS:
            config = GroupConfig(group_name=group.name, consume_message_orderly=group.is_ordered)
            code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
            reply = peer.call(code, body=write_body(config))
            assert reply.code == ResponseCode.SUCCESS, reply.remark


def kill(directory: Path, seed: int, count: int) -> Findings:
    """Half of the kills with each way of flushing."""
    findings = Findings()
    for mode, share in ((SYNC, count - count // 2), (ASYNC, count // 2)):
        if share:
            findings.add(asyncio.run(_kill(directory / mode, mode, seed, share)))
    return findings


async def _kill(directory: Path, mode: str, seed: int, count: int) -> Findings:
    chance = Random(seed)
    kills = starting = 0
    async with pop_stage(directory, chance, mode) as on:
        while kills < count:
            await on.traffic.until_more()
            await asyncio.sleep(chance.uniform(0, 0.2))
            on.broker.kill()
            kills += 1
            while chance.random() < _KILLED_AGAIN and kills < count:
                on.broker.begin()
                await asyncio.sleep(chance.uniform(0, _STARTING_S))
                on.broker.kill()
                kills += 1
                starting += 1
            await asyncio.to_thread(on.broker.start)
        findings = Findings()
        findings.counts.update({"kills": kills, "of them while starting": starting})
        findings.add(await on.finished())
    return findings


POP_KILL: Final = Rig(
    "pop-kill",
    "kill -9 while messages are popped and acknowledged by remoting and gRPC, in order and not",
    kill,
    few=4,
    many=1000,
)
