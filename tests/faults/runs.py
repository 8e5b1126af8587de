"""Runs that are written down, and the table that is made of them.

`runs.json` has the last recorded run of each rig; `docs/reliability_runs.md` is made from it by the
command that records, and by nothing else.
"""

import hashlib
from pathlib import Path
from typing import Final

import msgspec

_ROOT: Final = Path(__file__).parents[2]
RUNS_PATH: Final = Path(__file__).parent / "runs.json"
TABLE_PATH: Final = _ROOT / "docs" / "reliability_runs.md"

_HEAD: Final = """# Faults, counted

Made by `python -m tests.faults RIG --record`, which runs a rig of `tests/faults` and writes down
what it saw; not to be edited. Each line is the last recorded run of its rig. A violation is an
acknowledged message that was lost or never delivered, anything read that nobody sent, an offset
that named two messages, a committed offset that went back, or a server that did not start again.

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
    command: str
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
    return (
        f"| {run.rig} | {run.fault} | {done} | {len(run.violations)} | {run.date} | {run.commit} "
        f"| `{run.command}` |\n"
    )
