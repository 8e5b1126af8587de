"""Runs that are written down, and the table that is made of them.

`runs.json` has what was recorded last of each rig: one run, or the sum of several with seeds of
their own, all of the same code. `docs/reliability_runs.md` is made from it by the command that
records, and by nothing else.
"""

import hashlib
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec

from tests.faults.findings import Findings

_ROOT: Final = Path(__file__).parents[2]
RUNS_PATH: Final = Path(__file__).parent / "runs.json"
TABLE_PATH: Final = _ROOT / "docs" / "reliability_runs.md"

_HEAD: Final = """# Faults, counted

Made by `python -m tests.faults RIG --record`, which runs a rig of `tests/faults` and writes down
what it saw; not to be edited. Each line is what was recorded last of its rig: one run, or several
of the same code (`--add`), whose counts add up, and of whose figures the worst is shown;
`tests/faults/runs.json` has all their commands. A violation is an acknowledged message that was
lost or never delivered, anything read that nobody sent, an offset that named two messages, a
committed offset that went back, or a server that did not start again.

| rig | fault | what was done | violations | date | commit | command |
|---|---|---|---|---|---|---|
"""


class Run(msgspec.Struct, frozen=True):
    rig: str
    fault: str
    counts: dict[str, int]
    figures: dict[str, float]
    violations: list[str]
    date: str
    commit: str
    # One for each run that this is the sum of.
    commands: list[str]
    # Of everything above, so that nobody changes a figure by accident.
    digest: str = ""

    def sealed(self) -> "Run":
        return msgspec.structs.replace(self, digest=self._sum())

    @property
    def is_sealed(self) -> bool:
        return self.digest == self._sum()

    def _sum(self) -> str:
        text = msgspec.json.encode(msgspec.structs.replace(self, digest=""), order="sorted")
        return hashlib.sha256(text).hexdigest()[:16]


class CannotAdd(Exception):
    """Two runs that are not to be taken for one."""


def sum_of(recorded: Run, run: Run) -> Run:
    """What both have done, with the date and commit of the later one."""
    if again := set(recorded.commands) & set(run.commands):
        raise CannotAdd(f"{', '.join(sorted(again))} is in it already: give another seed")
    both = Findings(Counter(recorded.counts), recorded.violations.copy(), dict(recorded.figures))
    both.add(Findings(Counter(run.counts), run.violations, run.figures))
    return msgspec.structs.replace(
        run,
        counts=dict(both.counts),
        figures=both.figures,
        violations=both.violations,
        commands=recorded.commands + run.commands,
    )


def load() -> dict[str, Run]:
    if not RUNS_PATH.exists():
        return {}
    return msgspec.json.decode(RUNS_PATH.read_bytes(), type=dict[str, Run])


def record(run: Run) -> None:
    """In place of the last run of this rig; the table follows."""
    runs = load() | {run.rig: run.sealed()}
    text = msgspec.json.format(msgspec.json.encode(dict(sorted(runs.items()))), indent=1)
    RUNS_PATH.write_bytes(text + b"\n")
    TABLE_PATH.write_text(table(runs))


def table(runs: dict[str, Run]) -> str:
    return _HEAD + "".join(map(_row, (runs[name] for name in sorted(runs))))


def _row(run: Run) -> str:
    done = ", ".join(
        [
            *(f"{count:,} {name}" for name, count in run.counts.items()),
            *(f"{name} {value:g}" for name, value in run.figures.items()),
        ]
    )
    more = f" and {len(run.commands) - 1} more" if len(run.commands) > 1 else ""
    return (
        f"| {run.rig} | {run.fault} | {done} | {len(run.violations)} | {run.date} | {run.commit} "
        f"| `{run.commands[0]}`{more} |\n"
    )
