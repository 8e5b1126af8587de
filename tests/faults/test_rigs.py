"""Every rig does its fault a few times and finds nothing, a quarter of them in `make test`; with
ROQUET_LONG=1, for hours.

The few are always the same ones, as far as a seed decides: what is new is looked for by those who
have the hours. `python -m tests.faults RIG --seed SEED` repeats one.
"""

import random
from math import ceil
from pathlib import Path

import pytest

from tests.faults.catalog import OF_APACHE, RIGS
from tests.faults.rig import Rig
from tests.support.gates import IS_LONG, IS_QUICK

SEED = 20261116


def _parameter(number: int, rig: Rig) -> object:
    # Two at a time: they wait most of the time, but more of them would starve each other.
    group = "apache" if rig.needs_java else f"faults-{number % 2}"
    marks = [pytest.mark.slow, pytest.mark.xdist_group(group)]
    return pytest.param(rig, marks=[*marks, pytest.mark.java] if rig.needs_java else marks)


@pytest.mark.parametrize("rig", [_parameter(*each) for each in enumerate(RIGS.values())], ids=RIGS)
def test_the_rig_finds_nothing(rig: Rig, tmp_path: Path) -> None:
    reason = rig.missing()
    if reason is not None:
        pytest.skip(reason)
    seed = random.randrange(2**32) if IS_LONG else SEED
    count = rig.many if IS_LONG else ceil(rig.few / 4) if IS_QUICK else rig.few
    findings = rig.run(tmp_path, seed, count)
    assert findings.counts
    repeat = f"python -m tests.faults {rig.name} --seed {seed} --count {count}"
    assert not findings.violations, f"{repeat}\n{findings.text()}"


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.full("nothing is expected of Apache's servers but that the rig runs")
@pytest.mark.xdist_group("apache")
@pytest.mark.parametrize("rig", OF_APACHE.values(), ids=OF_APACHE)
def test_the_rig_runs_with_apache(rig: Rig, tmp_path: Path) -> None:
    assert rig.run(tmp_path, SEED, rig.few).counts
