"""A master and its slave under load, on hosts of their own or on this machine, and their judges."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from roquet.clock import SystemClock
from roquet.net.addresses import split_address
from roquet.net.peers import Peers
from roquet.net.router import Router
from tests.faults.bugs import buggy
from tests.faults.commits import CommitWatch
from tests.faults.findings import Findings
from tests.faults.replica_logs import LiveLog, ReplicaCheck
from tests.faults.stage import QUEUE_COUNT, queues_of, seen_by
from tests.faults.traffic import BROKER_SETTINGS, TOPIC, Mix, Traffic
from tests.support.eventually import eventually, wait_until
from tests.support.namespaces import Network
from tests.support.our_cluster import HOST, OurBroker, OurNameServer
from tests.support.tcp_proxy import PROXY_HOST, TcpProxy
from tests.support.topics import create_topic, has_topic

NAMES, MASTER, SLAVE, CLIENTS = "names", "master", "slave", "clients"
SYNC_MASTER, ASYNC_MASTER = "SYNC_MASTER", "ASYNC_MASTER"

# Nothing that a slave cannot do while its master is away: no retries, delays, decisions, locks.
_MIX: Final = Mix(delaying=0, deciding=0, ordered_members=0, pause_s=0.005, retried_each=None)
_LATE: Final = "late"
_BROKER_NAME: Final = "pair"
_LOOK_AGAIN_S: Final = 0.2
# A slave asks its master for tables, and sends it its own, every ten seconds.
_TOLD_S_MAX: Final = 45.0
# A dead line is noticed within three seconds.
_SETTINGS: Final = BROKER_SETTINGS | {
    "haSendHeartbeatInterval": "500",
    "haHousekeepingInterval": "3000",
    "slaveTimeout": "1000",
    "slaveReadEnable": "true",
}


class Pair(NamedTuple):
    master: OurBroker
    slave: OurBroker
    traffic: Traffic
    copy: ReplicaCheck
    commits: CommitWatch
    # Between the two, if it was asked for.
    link: TcpProxy | None

    @property
    def brokers(self) -> list[OurBroker]:
        return [self.master, self.slave]

    @contextmanager
    def stopped(self, broker: OurBroker) -> Iterator[None]:
        """SIGSTOP, unless it was killed."""
        if not broker.has_ended:
            os.kill(broker.process_id, signal.SIGSTOP)
        try:
            yield
        finally:
            if not broker.has_ended:
                os.kill(broker.process_id, signal.SIGCONT)

    async def recovered(self) -> None:
        """Senders hear again that messages are stored, by a SYNC_MASTER twice; readers get them."""
        await self.traffic.until_more()
        await self.traffic.until_more_delivered()

    async def ended(self) -> Findings:
        """The last act: the master goes, the slave has all that is due, the master comes back."""
        traffic, copy = self.traffic, self.copy
        if not copy.is_sync:
            await traffic.stop_sending()
            await self._until_copied()
        await asyncio.to_thread(self.master.kill)
        copy.look()
        late = await traffic.join(_LATE)
        findings = seen_by(traffic, await traffic.finish())
        await traffic.leave(late)
        at_slave = (await self.commits.committed(self.slave.address))[_LATE]
        await asyncio.to_thread(self.master.start)
        findings.violations += await self._rolled_back(at_slave)
        await self._until_copied()
        copy.compare_all()
        findings.violations += copy.violations
        return findings

    async def _until_copied(self) -> None:
        """Returns also when that does not happen: the comparison afterwards reports it."""
        logs = self.copy.master, self.copy.slave

        def is_copied() -> bool:
            for log in logs:
                log.look()
            return logs[0].end == logs[1].end

        try:
            await eventually(is_copied)
        except TimeoutError:
            self.copy.violations.append("C2: the slave does not catch up")

    async def _rolled_back(self, at_slave: dict[int, int]) -> list[str]:
        """The slave has to send what is not committed again."""
        at_master: dict[int, int] = {}
        with suppress(TimeoutError):
            async with asyncio.timeout(_TOLD_S_MAX):
                while at_master != at_slave:
                    found = await self.commits.committed(self.master.address)
                    at_master = found.get(_LATE, {})
                    await asyncio.sleep(_LOOK_AGAIN_S)
                return []
        return [f"I5: {_LATE} has committed {at_slave} at the slave, {at_master} at the master"]


@asynccontextmanager
async def pair(
    directory: Path,
    chance: Random,
    role: str,
    *,
    network: Network | None = None,
    flush: str = "SYNC_FLUSH",
    is_proxied: bool = False,
    with_bug: str | None = None,
) -> AsyncIterator[Pair]:
    """With a `network`, whoever calls is on its host `clients`.

    `is_proxied` puts a proxy between the two, and `with_bug` a bug into the master.
    """
    shared = {**_SETTINGS, "flushDiskType": flush}
    async with AsyncExitStack() as stack:
        names = OurNameServer(directory / NAMES, host=_host(network, NAMES))
        names.under = _under(network, NAMES)
        stack.enter_context(names)

        def broker(host: str, settings: Mapping[str, str]) -> OurBroker:
            made = OurBroker(
                directory / host,
                names.address,
                broker_name=_BROKER_NAME,
                configuration={**shared, **settings},
                host=_host(network, host),
            )
            made.under = _under(network, host)
            return made

        master = broker(MASTER, {"brokerRole": role})
        if with_bug is not None:
            master.under += buggy(with_bug)
        of_slave = {"brokerRole": "SLAVE", "brokerId": "1"}
        link = None
        if is_proxied:
            link = await stack.enter_async_context(TcpProxy(PROXY_HOST, _ha_address(master)))
            of_slave["haMasterAddress"] = _ha_address(master, PROXY_HOST)
        slave = broker(SLAVE, of_slave)
        for each in (master, slave):
            stack.enter_context(each)
        create_topic(master.address, TOPIC, QUEUE_COUNT)
        traffic = Traffic(names.address, queues_of([master]), chance.getrandbits(32), _MIX)
        await stack.enter_async_context(traffic)
        peers = Peers(Router(None, ()), SystemClock())
        stack.push_async_callback(peers.close)
        copy = ReplicaCheck(
            TOPIC,
            traffic.history,
            LiveLog(master.store_directory),
            LiveLog(slave.store_directory),
            is_sync=role == SYNC_MASTER,
        )
        commits = CommitWatch(peers, TOPIC, traffic.history)
        # Otherwise it could not be read from.
        await asyncio.to_thread(wait_until, lambda: has_topic(slave.address, TOPIC))
        on = Pair(master, slave, traffic, copy, commits, link)
        async with _watched(on):
            yield on


def _ha_address(broker: OurBroker, host: str | None = None) -> str:
    """Where a master sends its log; the proxy has the same port at another address."""
    own_host, port = split_address(broker.address)
    return f"{host or own_host}:{port + 1}"


@asynccontextmanager
async def _watched(on: Pair) -> AsyncIterator[None]:
    """While the block runs, every commit backwards is seen."""
    master, slave = on.master, on.slave

    def of_master() -> str | None:
        return None if master.has_ended else f"master {master.start_count}"

    def of_slave() -> str | None:
        is_alone = master.has_ended and not slave.has_ended
        return f"slave {slave.start_count} after {master.start_count}" if is_alone else None

    watches = [
        asyncio.create_task(on.commits.watch(broker.address, life))
        for broker, life in ((master, of_master), (slave, of_slave))
    ]
    try:
        yield
    finally:
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)


def _host(network: Network | None, host: str) -> str:
    return HOST if network is None else network.address(host)


def _under(network: Network | None, host: str) -> tuple[str, ...]:
    return () if network is None else network.under(host)
