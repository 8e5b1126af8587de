"""Three brokers of one name that elect their master with etcd, and lose it in every way.

Each has a host, with a member of etcd at its side; both are cut off together, too. What must hold
beyond the invariants of the history:

    E1  whatever was acknowledged was so by the only master of its epoch
    E2  in the end all logs are the same, byte for byte
"""

import asyncio
import json
import os
import signal
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from tests.faults.epochs import Acknowledging, not_by_their_masters, read_epochs
from tests.faults.findings import Findings
from tests.faults.pair_faults import rounds
from tests.faults.replica_logs import differing
from tests.faults.rig import Rig
from tests.faults.stage import QUEUE_COUNT, queues_of, seen_by
from tests.faults.traffic import BROKER_SETTINGS, TOPIC, Mix, Traffic
from tests.support.etcd_members import EtcdMember, etcd_members, leader_of, missing_etcd
from tests.support.eventually import wait_until
from tests.support.namespaces import Drop, Network, missing_network
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.topics import create_topic, has_topic

_HOSTS: Final = ("a", "b", "c")
_NAMES, _CLIENTS = "names", "clients"
_BROKER_NAME: Final = "elected"
_KEY: Final = f"/roquet/DefaultCluster/{_BROKER_NAME}/master"
_LEASE_S: Final = 4
_STOPPED_S: Final = 10.0
_CUT_S: Final = (2.0, 12.0)
_AWAY_S: Final = (0.0, 8.0)
_PATIENCE_S: Final = 120.0
_MIX: Final = Mix(ordered_members=0, pause_s=0.01)
_SETTINGS: Final = BROKER_SETTINGS | {
    "haSendHeartbeatInterval": "500",
    "haHousekeepingInterval": "3000",
    "replication.acknowledge": "quorum",
    "replication.copies": str(len(_HOSTS)),
    "replication.leaseSeconds": str(_LEASE_S),
}


class Electorate(NamedTuple):
    network: Network
    members: list[EtcdMember]
    # In the order of the hosts; the number of a broker is its place there, from 1 on.
    brokers: list[OurBroker]
    name_server: str

    def master(self) -> OurBroker | None:
        """As etcd has it; None while there is none, or it is not known."""
        for member in self.members:
            try:
                answer = member.ask("kv/range", key=b64encode(_KEY.encode()).decode())
            except OSError:
                continue
            for entry in answer.get("kvs", ()):
                number: int = json.loads(b64decode(entry["value"]))["replica_id"]
                return self.brokers[number - 1]
            return None
        return None

    async def elected(self, other_than: OurBroker | None = None) -> OurBroker:
        """Waits for a master, if wanted for another one."""
        found: list[OurBroker] = []

        def is_found() -> bool:
            master = self.master()
            found[:] = [] if master in (None, other_than) else [master]
            return bool(found)

        await asyncio.to_thread(wait_until, is_found, _PATIENCE_S)
        return found[0]

    def host(self, broker: OurBroker) -> str:
        return _HOSTS[self.brokers.index(broker)]


Fault = Callable[[Electorate, Random], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def kill(on: Electorate, chance: Random) -> AsyncIterator[None]:
    master = await on.elected()
    await asyncio.to_thread(master.kill)
    await asyncio.sleep(chance.uniform(*_AWAY_S))
    yield
    await asyncio.to_thread(master.start)


@asynccontextmanager
async def kill_two(on: Electorate, _chance: Random) -> AsyncIterator[None]:
    """The second as soon as it is master."""
    first = await on.elected()
    await asyncio.to_thread(first.kill)
    second = await on.elected(first)
    await asyncio.to_thread(first.start)
    await asyncio.to_thread(second.kill)
    yield
    await asyncio.to_thread(second.start)


@asynccontextmanager
async def cut_off(on: Electorate, chance: Random) -> AsyncIterator[None]:
    """The master and its etcd; clients may still reach it, and must not get wrong answers."""
    host = on.host(await on.elected())
    others = [each for each in on.network.hosts if each != host]
    if chance.random() < 0.5:
        others.remove(_CLIENTS)
    drops = [Drop(*ends) for other in others for ends in ((host, other), (other, host))]
    with on.network.dropping(*drops):
        await asyncio.sleep(chance.uniform(*_CUT_S))
        yield


@asynccontextmanager
async def stop(on: Electorate, _chance: Random) -> AsyncIterator[None]:
    """It wakes up in another epoch."""
    master = await on.elected()
    os.kill(master.process_id, signal.SIGSTOP)
    try:
        await asyncio.sleep(_STOPPED_S)
        yield
    finally:
        os.kill(master.process_id, signal.SIGCONT)


@asynccontextmanager
async def lose_the_leader(on: Electorate, chance: Random) -> AsyncIterator[None]:
    """Of etcd, which elects another one in the middle of leases."""
    leader = await asyncio.to_thread(leader_of, on.members)
    await asyncio.to_thread(leader.kill)
    await asyncio.sleep(chance.uniform(*_AWAY_S))
    yield
    leader.start()


_FAULTS: Final[dict[str, Fault]] = {
    "killed masters": kill,
    "times two masters killed in a row": kill_two,
    "masters cut off with their etcd": cut_off,
    "masters stopped for 10 s": stop,
    "leaders of etcd killed": lose_the_leader,
}


def elections(directory: Path, seed: int, count: int) -> Findings:
    findings = Findings()
    for number, share in enumerate(rounds(count)):
        with (
            TemporaryDirectory(dir=directory) as place,
            Network(_NAMES, _CLIENTS, *_HOSTS) as network,
            network.inside(_CLIENTS),
            etcd_members(Path(place), network, *_HOSTS) as members,
            _electorate(Path(place), network, members) as on,
        ):
            findings.add(asyncio.run(_elections(on, Random(f"{seed} {number}"), share)))
    return findings


async def _elections(on: Electorate, chance: Random, count: int) -> Findings:
    findings = Findings()
    queues = queues_of(on.brokers[:1])
    async with Traffic(on.name_server, queues, chance.getrandbits(32), _MIX) as traffic:
        await traffic.until_more(patience_s=_PATIENCE_S)
        deck: list[str] = []
        for _ in range(count):
            deck = deck or chance.sample(list(_FAULTS), len(_FAULTS))
            fault = deck.pop()
            findings.counts[fault] += 1
            async with _FAULTS[fault](on, chance):
                pass
            await traffic.until_more(patience_s=_PATIENCE_S)
        findings.add(seen_by(traffic, await traffic.finish(_PATIENCE_S)))
        findings.violations += await differing(
            [each.store_directory for each in on.brokers], _PATIENCE_S
        )
        acknowledgements = [
            Acknowledging.of(each.offset_id, each.body) for each in traffic.history.acknowledged
        ]
        epochs = {each.address: read_epochs(each.store_directory) for each in on.brokers}
        findings.violations += not_by_their_masters(acknowledgements, epochs)
        findings.counts["epochs"] = len(epochs[on.brokers[0].address].starts)
    return findings


@contextmanager
def _electorate(
    directory: Path, network: Network, members: list[EtcdMember]
) -> Iterator[Electorate]:
    secret = directory / "secret"
    secret.write_text("what only brokers of this name know")
    etcd = ",".join(each.address for each in members)
    with ExitStack() as stack:
        names = OurNameServer(directory / _NAMES, host=network.address(_NAMES))
        names.under = network.under(_NAMES)
        stack.enter_context(names)
        brokers = []
        for number, host in enumerate(_HOSTS, 1):
            broker = OurBroker(
                directory / f"broker-{host}",
                names.address,
                broker_name=_BROKER_NAME,
                configuration={
                    **_SETTINGS,
                    # The first one founds it all; who is master later is decided by etcd.
                    "brokerRole": "SYNC_MASTER" if number == 1 else "SLAVE",
                    "brokerId": str(number),
                    "replication.etcd": etcd,
                    "replication.secretFile": str(secret),
                },
                host=network.address(host),
            )
            broker.under = network.under(host)
            brokers.append(stack.enter_context(broker))
        on = Electorate(network, members, brokers, names.address)
        wait_until(lambda: on.master() is brokers[0])
        create_topic(brokers[0].address, TOPIC, QUEUE_COUNT)
        wait_until(lambda: all(has_topic(each.address, TOPIC) for each in brokers))
        yield on


def _missing() -> str | None:
    return missing_network() or missing_etcd()


ELECTIONS: Final = Rig(
    "elections",
    "three brokers elect a master with etcd and lose it: kills, stops, cuts, etcd's own leader",
    elections,
    few=1,
    many=500,
    missing=_missing,
)
