"""What is done to a master and its slave, whichever way they reach each other.

A fault is a block: it starts with the block and ends with it, and inside of it the
copy is looked at. One may start before the last one is over.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random
from typing import Final

from tests.faults.findings import Findings
from tests.faults.pairs import Pair

Fault = Callable[[Pair, Random], AbstractAsyncContextManager[None]]

_STOPPED_S: Final = 10.0
_HELD_S: Final = (1.0, 5.0)
_AWAY_S: Final = (0.0, 2.0)
_TWO_IN_A_ROW: Final = 0.3
_ROUND_COUNT: Final = 10


async def hold(chance: Random) -> None:
    await asyncio.sleep(chance.uniform(*_HELD_S))


@asynccontextmanager
async def kill(on: Pair, chance: Random) -> AsyncIterator[None]:
    broker = chance.choice(on.brokers)
    await asyncio.to_thread(broker.kill)
    await asyncio.sleep(chance.uniform(*_AWAY_S))
    yield
    await asyncio.to_thread(broker.start)


@asynccontextmanager
async def leave_the_other_alone(on: Pair, chance: Random) -> AsyncIterator[None]:
    """One is killed, and does not come back before readers have gone on at the other."""
    broker = chance.choice(on.brokers)
    await asyncio.to_thread(broker.kill)
    if broker is on.slave:
        await on.traffic.until_more_delivered()
    elif on.copy.is_sync:
        await on.traffic.until_delivered()
    yield
    await asyncio.to_thread(broker.start)


@asynccontextmanager
async def stop(on: Pair, chance: Random) -> AsyncIterator[None]:
    """Its peers hear nothing of it, and it does not know how long it was away."""
    with on.stopped(chance.choice(on.brokers)):
        await asyncio.sleep(_STOPPED_S)
        yield


ALONE: Final = "kills until readers went on"
PROCESS_FAULTS: Final[dict[str, Fault]] = {
    "kills": kill,
    "stops for 10 s": stop,
    ALONE: leave_the_other_alone,
}


def rounds(count: int) -> Iterator[int]:
    """So many faults in shares: each has a new pair, whose history does not grow for hours."""
    for done in range(0, count, _ROUND_COUNT):
        yield min(count - done, _ROUND_COUNT)


async def play(on: Pair, chance: Random, faults: Mapping[str, Fault], count: int) -> Findings:
    """So many faults, then the last act; what came of it all."""
    findings = Findings()
    await on.recovered()
    for names in _schedule(chance, list(faults), count):
        findings.counts.update(names)
        await _do(on, chance, [faults[name] for name in names])
        if len(names) > 1:
            findings.counts["of them two in a row"] += len(names)
        await on.recovered()
    findings.add(await on.ended())
    return findings


async def _do(on: Pair, chance: Random, faults: Sequence[Fault]) -> None:
    if faults:
        async with faults[0](on, chance):
            await _do(on, chance, faults[1:])
            on.copy.look()


def _schedule(chance: Random, names: Sequence[str], count: int) -> Iterator[list[str]]:
    """All kinds have their turn before one comes again; some have a second one inside of them."""
    deck: list[str] = []
    while count > 0:
        if not deck:
            deck = chance.sample(names, len(names))
        turn = [deck.pop()]
        # Readers need a broker to continue at.
        is_one_of_two = chance.random() < _TWO_IN_A_ROW
        if is_one_of_two and count > 1 and deck and ALONE not in (turn[0], deck[-1]):
            turn.append(deck.pop())
        count -= len(turn)
        yield turn
