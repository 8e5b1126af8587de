"""The link between a master and its slave goes through a proxy that fails: it needs no root.

For machines that have no network namespaces (see `lines`), and for what packets cannot do: a
connection that is reset at once and refused for a while.
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
from tests.faults.pairs import SYNC_MASTER, Pair, pair
from tests.faults.rig import Rig
from tests.support.tcp_proxy import Direction

_DELAY_S: Final = 0.5


@asynccontextmanager
async def refuse(on: Pair, chance: Random) -> AsyncIterator[None]:
    assert on.link is not None
    on.link.refuse()
    on.link.cut()
    await hold(chance)
    yield
    await on.link.accept()


@asynccontextmanager
async def silence(on: Pair, chance: Random) -> AsyncIterator[None]:
    assert on.link is not None
    on.link.silence(chance.choice(list(Direction)))
    await hold(chance)
    yield
    on.link.resume()


@asynccontextmanager
async def delay(on: Pair, chance: Random) -> AsyncIterator[None]:
    assert on.link is not None
    on.link.delay_s = _DELAY_S
    await hold(chance)
    yield
    on.link.resume()


_FAULTS: Final[dict[str, Fault]] = {
    "refused links": refuse,
    "one-way silences": silence,
    "delayed links": delay,
    **PROCESS_FAULTS,
}


def links(directory: Path, seed: int, count: int) -> Findings:
    findings = Findings()
    for number, share in enumerate(rounds(count)):
        with TemporaryDirectory(dir=directory) as place:
            findings.add(asyncio.run(_links(Path(place), Random(f"{seed} {number}"), share)))
    return findings


async def _links(directory: Path, chance: Random, count: int) -> Findings:
    async with pair(directory, chance, SYNC_MASTER, is_proxied=True) as on:
        return await play(on, chance, _FAULTS, count)


LINKS: Final = Rig(
    "links",
    "a slave whose link to its master goes through a proxy that fails; kills and stops",
    links,
    few=1,
    many=300,
)
