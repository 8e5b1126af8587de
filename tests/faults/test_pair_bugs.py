"""A master that answers too early is seen, or else its rigs could find nothing."""

import asyncio
import os
from pathlib import Path
from random import Random

import pytest

from tests.faults.bugs import BUGS
from tests.faults.pairs import SYNC_MASTER, pair

IS_LONG = bool(os.environ.get("ROQUET_LONG"))


async def violations_of(bug: str, directory: Path) -> list[str]:
    async with pair(directory, Random(1), SYNC_MASTER, with_bug=bug) as on:
        await on.recovered()
        with on.stopped(on.slave):
            await on.traffic.until_more(200)
            on.copy.look()
    return on.copy.violations


def _parameter(number: int, bug: str) -> object:
    is_skipped = number > 0 and not IS_LONG
    return pytest.param(bug, marks=pytest.mark.skipif(is_skipped, reason="needs ROQUET_LONG=1"))


@pytest.mark.slow
@pytest.mark.xdist_group("faults-0")
@pytest.mark.parametrize("bug", [_parameter(*each) for each in enumerate(BUGS)])
def test_the_bug_is_found(bug: str, tmp_path: Path) -> None:
    violations = asyncio.run(violations_of(bug, tmp_path))
    assert any(each.startswith("C1") for each in violations)
