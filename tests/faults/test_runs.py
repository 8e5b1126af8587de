"""The table of recorded runs is made by the command that records them."""

import re
import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.faults.catalog import ALL_RIGS
from tests.faults.runs import TABLE_PATH, CannotAdd, Run, load, sum_of, table

ROOT = Path(__file__).parents[2]
RUN = Run(
    rig="kill",
    fault="kill -9",
    counts={"kills": 1200},
    figures={"restart p99 s": 0.5},
    violations=["I1: lost"],
    date="2026-01-01",
    commit="0123456789",
    commands=["python -m tests.faults kill --seed 1 --count 1200"],
)


def test_the_table_says_what_was_recorded() -> None:
    assert TABLE_PATH.read_text() == table(load())


def test_no_recorded_run_was_changed() -> None:
    assert [run.rig for run in load().values() if not run.is_sealed] == []


def test_recorded_runs_are_of_rigs_that_exist_and_can_be_repeated() -> None:
    for name, run in load().items():
        assert name == run.rig
        assert name in ALL_RIGS
        command = re.compile(rf"python -m tests\.faults {name} --seed \d+ --count \d+")
        assert all(map(command.fullmatch, run.commands))
        assert len(set(run.commands)) == len(run.commands) > 0
        assert re.fullmatch(r"[0-9a-f]{10}", run.commit)


@pytest.mark.parametrize("rig", load())
def test_a_recorded_run_is_of_code_that_this_code_came_from(rig: str) -> None:
    if not (ROOT / ".git").exists() or _git("rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("the history is not here")
    assert _git("merge-base", load()[rig].commit, "HEAD").startswith(load()[rig].commit)


def _git(*words: str) -> str:
    finished = subprocess.run(("git", *words), cwd=ROOT, capture_output=True, text=True, check=True)
    return finished.stdout.strip()


def test_a_row_has_counts_figures_and_how_many_violations() -> None:
    assert table({"kill": RUN}).endswith(
        "| kill | kill -9 | 1,200 kills, restart p99 s 0.5 | 1 | 2026-01-01 | 0123456789 "
        "| `python -m tests.faults kill --seed 1 --count 1200` |\n"
    )


def test_runs_add_up_and_the_worst_figure_stays() -> None:
    later = msgspec.structs.replace(
        RUN,
        counts={"kills": 800, "failed": 2},
        figures={"restart p99 s": 0.4},
        violations=[],
        date="2026-01-02",
        commands=["python -m tests.faults kill --seed 2 --count 800"],
    )
    both = sum_of(RUN, later)
    assert table({"kill": both}).endswith(
        "| kill | kill -9 | 2,000 kills, 2 failed, restart p99 s 0.5 | 1 | 2026-01-02 | 0123456789 "
        "| `python -m tests.faults kill --seed 1 --count 1200` and 1 more |\n"
    )
    assert both.commands == RUN.commands + later.commands


def test_no_run_counts_twice() -> None:
    with pytest.raises(CannotAdd, match="--seed 1 --count 1200 is in it already"):
        sum_of(RUN, RUN)


def test_a_changed_figure_breaks_the_seal() -> None:
    sealed = RUN.sealed()
    assert sealed.is_sealed
    sealed.counts["kills"] = 9999
    assert not sealed.is_sealed
