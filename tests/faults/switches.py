"""A master is lost for good, and a person makes its slave the master, as in docs/replication.md.

Everything that was acknowledged goes with the slave, whatever was on its way: plain messages, those
that wait for their time, and those whose sender has yet to decide. Then the new master gets a
new slave, and is lost in its turn.
"""

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final, Self

from tests.faults.findings import Findings
from tests.faults.pair_faults import rounds
from tests.faults.rig import Rig
from tests.faults.stage import QUEUE_COUNT, queues_of, seen_by
from tests.faults.traffic import BROKER_SETTINGS, TOPIC, Traffic
from tests.support.eventually import wait_until
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.topics import create_topic, has_topic

_BROKER_NAME: Final = "switched"
_PAUSE_S: Final = 0.5
_MASTER: Final = {"brokerRole": "SYNC_MASTER"}
_SLAVE: Final = {"brokerRole": "SLAVE", "brokerId": "1"}
_SETTINGS: Final = BROKER_SETTINGS | {
    "flushDiskType": "ASYNC_FLUSH",
    "haSendHeartbeatInterval": "500",
    # A message that a slow slave was not waited for may be read and is lost with its master: no
    # sender waits for so long.
    "slaveTimeout": "60000",
}


class _Succession:
    """Brokers of one name: who is master, who is next, and which directories they have."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stack = ExitStack()
        self._names = OurNameServer(directory / "names")
        self._count = 0

    def __enter__(self) -> Self:
        self._stack.enter_context(self._names)
        self.name_server = self._names.address
        self.master = self._started(self._next_directory(), _MASTER)
        create_topic(self.master.address, TOPIC, QUEUE_COUNT)
        self.slave = self._new_slave()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def switch(self) -> None:
        """What a person does, from the moment in which the master is lost."""
        self.master.kill()
        self.slave.stop()
        self.master = self._started(self.slave.directory, _MASTER)
        self.slave = self._new_slave()

    def _new_slave(self) -> OurBroker:
        slave = self._started(self._next_directory(), _SLAVE)
        # Without its topics it could not be a master.
        wait_until(lambda: has_topic(slave.address, TOPIC))
        return slave

    def _next_directory(self) -> Path:
        self._count += 1
        return self._directory / f"broker-{self._count}"

    def _started(self, directory: Path, settings: Mapping[str, str]) -> OurBroker:
        broker = OurBroker(
            directory,
            self.name_server,
            broker_name=_BROKER_NAME,
            configuration={**_SETTINGS, **settings},
        )
        return self._stack.enter_context(broker)


def switches(directory: Path, seed: int, count: int) -> Findings:
    findings = Findings()
    for number, share in enumerate(rounds(count)):
        with TemporaryDirectory(dir=directory) as place, _Succession(Path(place)) as succession:
            findings.add(asyncio.run(_switches(succession, Random(f"{seed} {number}"), share)))
    return findings


async def _switches(succession: _Succession, chance: Random, count: int) -> Findings:
    queues = queues_of([succession.master])
    async with Traffic(succession.name_server, queues, chance.getrandbits(32)) as traffic:
        for _ in range(count):
            await traffic.until_more()
            await asyncio.sleep(chance.uniform(0, _PAUSE_S))
            await asyncio.to_thread(succession.switch)
        await traffic.until_more()
        findings = Findings()
        findings.counts["switches"] = count
        findings.add(seen_by(traffic, await traffic.finish()))
    return findings


SWITCHES: Final = Rig(
    "switches",
    "a SYNC_MASTER is killed for good and its slave made master by hand, again and again",
    switches,
    few=1,
    many=300,
)
