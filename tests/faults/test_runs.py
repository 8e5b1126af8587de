"""The table of recorded runs is made by the command that records them."""

import re

from tests.faults.catalog import RIGS
from tests.faults.runs import TABLE_PATH, Run, load, table

RUN = Run(
    rig="kill",
    fault="kill -9",
    counts={"kills": 1200},
    figures={"restart p99 s": 0.5},
    violations=["I1: lost"],
    date="2026-01-01",
    commit="0123456789",
    command="python -m tests.faults kill --seed 1 --count 1200",
)


def test_the_table_says_what_was_recorded() -> None:
    assert TABLE_PATH.read_text() == table(load())


def test_no_recorded_run_was_changed() -> None:
    assert [run.rig for run in load().values() if not run.is_sealed] == []


def test_recorded_runs_are_of_rigs_that_exist_and_can_be_repeated() -> None:
    for name, run in load().items():
        assert name == run.rig
        assert name in RIGS
        assert re.fullmatch(rf"python -m tests\.faults {name} --seed \d+ --count \d+", run.command)
        assert re.fullmatch(r"[0-9a-f]{10}", run.commit)


def test_a_row_has_counts_figures_and_how_many_violations() -> None:
    assert table({"kill": RUN}).endswith(
        "| kill | kill -9 | 1,200 kills, restart p99 s 0.5 | 1 | 2026-01-01 | 0123456789 "
        "| `python -m tests.faults kill --seed 1 --count 1200` |\n"
    )


def test_a_changed_figure_breaks_the_seal() -> None:
    sealed = RUN.sealed()
    assert sealed.is_sealed
    sealed.counts["kills"] = 9999
    assert not sealed.is_sealed
