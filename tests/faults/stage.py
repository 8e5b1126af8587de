"""Real servers with clients at work, for faults to be done to them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from roquet import QueueRef
from tests.faults.findings import Findings
from tests.faults.traffic import BROKER_SETTINGS, TOPIC, Mix, Traffic
from tests.support.apache import ApacheBroker
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.topics import create_topic

QUEUE_COUNT: Final = 4
SYNC: Final = {"flushDiskType": "SYNC_FLUSH"}
ONLY_PLAIN: Final = Mix(delaying=0, deciding=0, spread_members=0, ordered_members=0)


class Stage(NamedTuple):
    names: OurNameServer
    brokers: list[OurBroker]
    traffic: Traffic

    @property
    def broker(self) -> OurBroker:
        return self.brokers[0]

    async def finished(self) -> Findings:
        """What the clients saw, when everything has come to rest."""
        violations = await self.traffic.finish()
        return seen_by(self.traffic, violations)


def seen_by(traffic: Traffic, violations: list[str]) -> Findings:
    findings = Findings(violations=violations)
    history = traffic.history
    findings.counts["acknowledged"] = history.owed_count
    findings.counts["failed"] = history.failed_count
    findings.counts["unknown"] = history.unknown_count
    findings.counts["delivered again"] = history.duplicate_count()
    return findings


@asynccontextmanager
async def stage(
    directory: Path,
    seed: int,
    *,
    configuration: Mapping[str, str] | None = None,
    mix: Mix | None = None,
    broker_count: int = 1,
    broker_directory: Path | None = None,
    broker_under: tuple[str, ...] = (),
) -> AsyncIterator[Stage]:
    """`broker_directory` is for a broker whose disk is a special one, `broker_under` a program that
    runs the brokers.
    """
    async with AsyncExitStack() as stack:
        names = stack.enter_context(OurNameServer(directory / "names"))
        brokers = []
        for number in range(broker_count):
            broker = OurBroker(
                broker_directory or directory / f"broker-{number}",
                names.address,
                broker_name=f"broker-{number}",
                configuration={**BROKER_SETTINGS, **SYNC, **(configuration or {})},
            )
            broker.under = broker_under
            brokers.append(stack.enter_context(broker))
            create_topic(broker.address, TOPIC, QUEUE_COUNT)
        traffic = Traffic(names.address, queues_of(brokers), seed, mix)
        await stack.enter_async_context(traffic)
        yield Stage(names, brokers, traffic)


def queues_of(brokers: Sequence[OurBroker | ApacheBroker]) -> list[QueueRef]:
    return [
        QueueRef(TOPIC, broker.broker_name, number)
        for broker in brokers
        for number in range(QUEUE_COUNT)
    ]
