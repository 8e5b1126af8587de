"""Lines that are cut, silent, lossy and slow between a master, its slave, clients and name server.

Each host has a network namespace of its own, so a fault is done to packets and neither end is
told. Brokers are killed and stopped, too.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from tests.faults.findings import Findings
from tests.faults.pair_faults import PROCESS_FAULTS, Fault, hold, play, rounds
from tests.faults.pairs import (
    ASYNC_MASTER,
    CLIENTS,
    MASTER,
    NAMES,
    SLAVE,
    SYNC_MASTER,
    Pair,
    pair,
)
from tests.faults.rig import Rig
from tests.support.namespaces import Drop, Network, missing_network

_LOSS_PERCENT: Final = 30
_RATE: Final = "1mbit"


class _Lines:
    """What can be done to those of a network."""

    def __init__(self, network: Network) -> None:
        self._network = network

    @property
    def faults(self) -> dict[str, Fault]:
        return {
            "cuts": self.cut,
            "one-way silences": self.silence,
            "times with 30 % loss": self.lose,
            "times with 1 Mbit/s": self.slow_down,
            **PROCESS_FAULTS,
        }

    @asynccontextmanager
    async def cut(self, _on: Pair, chance: Random) -> AsyncIterator[None]:
        """Between the two, or between one and everybody."""
        one, others = MASTER, [SLAVE]
        if chance.random() < 0.5:
            one = chance.choice((MASTER, SLAVE, NAMES))
            others = self._others(one)
        with self._network.dropping(*_both_ways(one, others, 100)):
            await hold(chance)
            yield

    @asynccontextmanager
    async def silence(self, _on: Pair, chance: Random) -> AsyncIterator[None]:
        ends = chance.choice(((MASTER, SLAVE), (MASTER, CLIENTS), (MASTER, NAMES)))
        source, target = chance.sample(ends, 2)
        with self._network.dropping(Drop(source, target)):
            await hold(chance)
            yield

    @asynccontextmanager
    async def lose(self, _on: Pair, chance: Random) -> AsyncIterator[None]:
        one = chance.choice((MASTER, SLAVE))
        with self._network.dropping(*_both_ways(one, self._others(one), _LOSS_PERCENT)):
            await hold(chance)
            yield

    @asynccontextmanager
    async def slow_down(self, _on: Pair, chance: Random) -> AsyncIterator[None]:
        with self._network.slowed(chance.choice((MASTER, SLAVE)), _RATE):
            await hold(chance)
            yield

    def _others(self, one: str) -> list[str]:
        return [host for host in self._network.hosts if host != one]


def _both_ways(one: str, others: list[str], percent: int) -> list[Drop]:
    return [
        Drop(source, target, percent)
        for other in others
        for source, target in ((one, other), (other, one))
    ]


def lines(directory: Path, seed: int, count: int) -> Findings:
    """Every third pair has a master that waits for no slave."""
    findings = Findings()
    for number, share in enumerate(rounds(count)):
        role = ASYNC_MASTER if number % 3 == 2 else SYNC_MASTER
        chance = Random(f"{seed} {number}")
        with (
            TemporaryDirectory(dir=directory) as place,
            Network(NAMES, MASTER, SLAVE, CLIENTS) as network,
            network.inside(CLIENTS),
        ):
            findings.add(asyncio.run(_lines(Path(place), chance, role, share, network)))
        findings.counts[f"pairs with {role}"] += 1
    return findings


async def _lines(
    directory: Path, chance: Random, role: str, count: int, network: Network
) -> Findings:
    flush = chance.choice(("SYNC_FLUSH", "ASYNC_FLUSH"))
    async with pair(directory, chance, role, network=network, flush=flush) as on:
        return await play(on, chance, _Lines(network).faults, count)


LINES: Final = Rig(
    "lines",
    "a master and a slave in network namespaces: cuts, silence, loss, slow lines, kills, stops",
    lines,
    few=3,
    many=1500,
    missing=missing_network,
)
