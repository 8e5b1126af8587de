"""How far delays and transactions are goes with the log: a switch that is behind takes them up.

A slave learns of progress at the main port of its master and of messages at another one. Here the
second is held back by a proxy while the first works, then the master is lost: what it had delivered
is not in the log of its successor, which has to deliver it, and to ask about transactions whose end
it never received.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from roquet import (
    AsyncTransactionProducer,
    Message,
    ReceivedMessage,
    SendError,
    TransactionState,
)
from roquet.net.addresses import split_address
from tests.faults.findings import Findings
from tests.faults.ledgers import Ledger, Outcome
from tests.faults.replica_sets import (
    ACKNOWLEDGE,
    COPIES,
    Replica,
    ReplicaSet,
    replica_settings,
    until_known,
)
from tests.faults.rig import Rig, in_turn
from tests.faults.stage import QUEUE_COUNT, queues_of, seen_by
from tests.faults.traffic import BROKER_SETTINGS, TOPIC, Mix, Traffic
from tests.support.eventually import happens
from tests.support.tcp_proxy import PROXY_HOST, Direction, TcpProxy
from tests.support.topics import create_topic

_LEVEL: Final = {"DELAY": "1"}
_TIMER: Final = {"TIMER_DELAY_MS": "3000"}
_MANY: Final = 50
_DECIDED: Final = 20
# A slave of ours copies tables every ten seconds at the latest.
_TABLES_S: Final = 11.0
_DELAY_S: Final = 3.0
_SETTINGS: Final = BROKER_SETTINGS | {
    ACKNOWLEDGE: "one",
    COPIES: "2",
    "messageDelayLevel": " ".join(["3s"] * 18),
}
# All of it that can be of one kind: delays and transactions.
_BUSY: Final = Mix(senders_per_queue=1, delaying=6, deciding=4, ordered_members=0, pause_s=0.005)
_PATIENCE_S: Final = 40.0


class _Linked(NamedTuple):
    replicas: ReplicaSet
    master: Replica
    slave: Replica
    link: TcpProxy

    async def switch(self) -> None:
        """What is on its way to the slave is lost with the master."""
        self.link.cut()
        self.link.refuse()
        await asyncio.to_thread(self.master.kill)
        # The slave has to notice.
        await asyncio.to_thread(happens, lambda: not self.slave.runtime_info.get("followedMaster"))
        await asyncio.to_thread(self.replicas.promote, self.slave)


def delivered_behind_a_held_link(directory: Path, _chance: Random) -> Findings:
    return asyncio.run(_delivered(directory))


def ended_behind_a_held_link(directory: Path, _chance: Random) -> Findings:
    return asyncio.run(_ended(directory))


def busy_behind_a_held_link(directory: Path, chance: Random) -> Findings:
    return asyncio.run(_busy(directory, chance, is_held=True))


def busy_without_a_cut(directory: Path, chance: Random) -> Findings:
    return asyncio.run(_busy(directory, chance, is_held=False))


async def _delivered(directory: Path) -> Findings:
    """Levels and timers: the master delivers all of them, and no slave learns of it."""
    findings, ledger = Findings(), Ledger()
    async with _linked(directory, _SETTINGS) as on:
        for properties in (_LEVEL, _TIMER):
            outcomes = await asyncio.to_thread(
                ledger.send_many, on.master.address, TOPIC, _MANY, QUEUE_COUNT, properties
            )
            if not outcomes[Outcome.ACKNOWLEDGED]:
                findings.violations.append("with a slave no delayed message is acknowledged")
        on.link.silence(Direction.TO_CLIENT)
        await asyncio.sleep(_DELAY_S + _TABLES_S)
        await on.switch()
        findings.violations += await asyncio.to_thread(ledger.check, on.slave.address, [TOPIC])
    findings.counts["switches"] = 1
    findings.add(ledger.counted())
    return findings


async def _ended(directory: Path) -> Findings:
    """Transactions: the halves are at the slave, their ends are not."""
    findings, ledger = Findings(), Ledger()
    history = ledger.history

    async def check(message: ReceivedMessage) -> TransactionState:
        is_wanted = message.body in history.promised
        return TransactionState.COMMIT if is_wanted else TransactionState.ROLLBACK

    async with _linked(directory, _SETTINGS) as on, AsyncExitStack() as stack:
        producer = AsyncTransactionProducer(
            on.replicas.name_server,
            "deciders",
            check=check,
            route_interval_s=1.0,
            heartbeat_interval_s=1.0,
        )
        await stack.enter_async_context(producer)
        transactions = AsyncExitStack()
        for number in range(_DECIDED):
            body = b"decided-%d" % number
            history.attempted.add(body)
            try:
                transaction = await transactions.enter_async_context(
                    producer.transaction(Message(TOPIC, body))
                )
            except SendError:
                ledger.outcomes[Outcome.UNKNOWN] += 1
                continue
            history.promised[body] = 0.0
            ledger.outcomes[Outcome.ACKNOWLEDGED] += 1
            transaction.outcome = TransactionState.COMMIT
        on.link.silence(Direction.TO_CLIENT)
        await transactions.aclose()
        await asyncio.sleep(_TABLES_S)
        await on.switch()
        findings.violations += await asyncio.to_thread(ledger.check, on.slave.address, [TOPIC])
    findings.counts["switches"] = 1
    findings.add(ledger.counted())
    return findings


async def _busy(directory: Path, chance: Random, *, is_held: bool) -> Findings:
    """Many of them all the time, and the master is lost after a copy of the tables."""
    settings = _SETTINGS | {"slaveTimeout": "60000"}
    async with _linked(directory, settings) as on:
        queues = queues_of([on.master])
        names = on.replicas.name_server
        async with Traffic(names, queues, chance.getrandbits(32), _BUSY) as traffic:
            await traffic.until_more()
            # What is accepted now is due in a moment.
            await asyncio.sleep(_DELAY_S)
            if is_held:
                on.link.silence(Direction.TO_CLIENT)
                await asyncio.sleep(_TABLES_S)
            else:
                await asyncio.sleep(chance.uniform(0, _TABLES_S))
            await on.switch()
            await traffic.stop_sending()
            findings = seen_by(traffic, await traffic.finish(_PATIENCE_S))
    findings.counts["switches"] = 1
    return findings


@asynccontextmanager
async def _linked(directory: Path, settings: dict[str, str]) -> AsyncIterator[_Linked]:
    """A master and a slave that has its log by way of a proxy."""
    own = replica_settings(2)
    with ReplicaSet(directory, own, settings) as on:
        master, slave = on.brokers
        host, port = split_address(master.address)
        await asyncio.to_thread(on.start, master)
        create_topic(master.address, TOPIC, QUEUE_COUNT)
        async with TcpProxy(PROXY_HOST, f"{host}:{port + 1}") as link:
            slave.set(haMasterAddress=f"{PROXY_HOST}:{port + 1}")
            await asyncio.to_thread(on.start, slave)
            await asyncio.to_thread(until_known, TOPIC, slave)
            await asyncio.to_thread(on.until_followed, master, slave)
            yield _Linked(on, master, slave, link)


PROGRESS: Final = Rig(
    "progress",
    "delayed messages and transactions around a switch, the log of the slave held back or not",
    in_turn(
        delivered_behind_a_held_link,
        ended_behind_a_held_link,
        busy_behind_a_held_link,
        busy_without_a_cut,
    ),
    few=4,
    many=80,
)
