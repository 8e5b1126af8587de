"""Bugs that were put into a broker's pops are seen, or else its rigs could find nothing."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from tests.faults.bugs import POP_BUGS, buggy
from tests.faults.pop_faults import SYNC, pop_stage
from tests.faults.pop_power_cuts import cut_under
from tests.faults.pop_traffic import GROUPS, PopMix
from tests.support.gates import few
from tests.support.recorded_device import missing

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("faults-1")]

SEED = 1
# What is only seen when power fails.
UNSAFE = "answer-pops-before-the-sync"
OTHERS = [bug for bug in POP_BUGS if bug != UNSAFE]
REMOTING = PopMix(groups=[group for group in GROUPS if not group.by_grpc], pause_s=0.01)
# Longer than any time that a message of these groups is invisible.
PATIENCE_S = 6.0
CUT_COUNT = 12
# A cut shows the bug if it falls between an answer and its sync, which most rounds have.
ROUND_COUNT_MAX = 5


async def violations_of(bug: str, directory: Path) -> list[str]:
    """One kill between two hundreds of acks."""
    chance = Random(SEED)
    async with pop_stage(directory, chance, SYNC, mix=REMOTING, broker_under=buggy(bug)) as on:
        await on.traffic.until_more()
        on.broker.kill()
        await asyncio.to_thread(on.broker.start)
        await on.traffic.until_more(20)
        return await on.traffic.finish(PATIENCE_S)


@pytest.mark.parametrize("bug", few(OTHERS, 1, "other bugs of the same kind"))
def test_a_kill_shows_the_bug(bug: str, tmp_path: Path) -> None:
    violations = asyncio.run(violations_of(bug, tmp_path))
    assert any(each.startswith("I11") for each in violations)


@pytest.mark.full("a minute of cuts")
def test_power_cuts_show_an_answer_that_came_too_early(tmp_path: Path) -> None:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    assert any(is_shown_by_cuts(tmp_path / str(seed), seed) for seed in range(ROUND_COUNT_MAX))


def is_shown_by_cuts(directory: Path, seed: int) -> bool:
    directory.mkdir()
    findings = cut_under(directory, SYNC, seed, CUT_COUNT, buggy(UNSAFE))
    return any(": I11: " in each and "after its ack" in each for each in findings.violations)
