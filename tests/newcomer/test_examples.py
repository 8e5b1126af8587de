"""Every example works in a fresh environment, and once more behind itself; so does the demo."""

import asyncio
from pathlib import Path

import pytest

from tests.newcomer.conftest import Cluster
from tests.support.newcomer_home import Home
from tests.test_examples import SAID

pytestmark = pytest.mark.xdist_group("newcomer")

SIDE_BY_SIDE = 4


async def test_every_example_says_what_it_shows_twice(
    home: Home, cluster: Cluster, examples: Path
) -> None:
    places = asyncio.Semaphore(SIDE_BY_SIDE)

    async def twice(name: str) -> list[str]:
        command = f"python {examples / name} {cluster.name_server}"
        problems = []
        async with places:
            for attempt in ("first", "second"):
                finished = await asyncio.to_thread(home.run, command)
                missing = [line for line in SAID[name] if line not in finished.stdout]
                if missing or finished.exit_code:
                    problems.append(f"{name}, {attempt} time: {missing}\n{finished.stderr}")
        return problems

    found = await asyncio.gather(*map(twice, SAID))
    assert not [problem for problems in found for problem in problems]


def test_the_demo_shows_its_story(home: Home, examples: Path) -> None:
    finished = home.run(f"python {examples / 'demo.py'}")
    assert finished.exit_code == 0, finished.stderr
    first, *_ = finished.stdout.splitlines()
    assert first == "A name server, a broker and their clients, all in this process."
    for line in (
        "billed order 2 at try 2",
        "the clock of the cluster is moved by an hour: a reminder",
        "0 of them are left.",
    ):
        assert line in finished.stdout
