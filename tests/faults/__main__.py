"""Runs one rig: `python -m tests.faults kill --seed 7 --count 1000 --record`."""

import argparse
import logging
import random
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.faults.catalog import ALL_RIGS
from tests.faults.findings import Findings
from tests.faults.rig import Rig
from tests.faults.runs import Run, load, record, sum_of

# What a run is made with; where runs are written down is no part of it.
_CODE: Final = ("src", "tests", ":!tests/faults/runs.json")


def main() -> int:
    arguments = _arguments()
    rig = ALL_RIGS[arguments.rig]
    reason = rig.missing()
    if reason is not None:
        sys.exit(f"{rig.name} cannot run here: {reason}")
    if arguments.record or arguments.add:
        _check_committed()
    recorded = load().get(rig.name) if arguments.add else None
    if recorded is not None:
        _check_same_code(recorded)
    commit = _git("rev-parse", "--short=10", "HEAD")
    seed = random.randrange(2**32) if arguments.seed is None else arguments.seed
    count = arguments.count or rig.many
    command = f"python -m tests.faults {rig.name} --seed {seed} --count {count}"
    _print(command)
    logging.disable(logging.CRITICAL)  # Thousands of faults are expected.
    with tempfile.TemporaryDirectory(dir=arguments.dir, prefix="roquet-faults-") as directory:
        findings = rig.run(Path(directory), seed, count)
    _print(findings.text())
    if arguments.record or arguments.add:
        run = _run_of(rig, commit, command, findings)
        record(run if recorded is None else sum_of(recorded, run))
    return 1 if findings.violations else 0


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("rig", choices=sorted(ALL_RIGS))
    parser.add_argument("--seed", type=int, help="repeats a run; without it one is chosen")
    parser.add_argument("--count", type=int, help="how many faults; without it, hours of them")
    parser.add_argument("--dir", help="where servers keep their files; they are gone afterwards")
    parser.add_argument("--record", action="store_true", help="write the run into the table")
    parser.add_argument("--add", action="store_true", help="to what the table has of this code")
    return parser.parse_args()


def _check_committed() -> None:
    """A run that is written down names the code it was made with."""
    if _git("status", "--porcelain", "--untracked-files=no", *_CODE):
        sys.exit("commit what has changed first: a recorded run names its commit")


def _check_same_code(recorded: Run) -> None:
    if _git("diff", "--name-only", recorded.commit, "HEAD", "--", *_CODE):
        sys.exit(f"what is recorded is of {recorded.commit}, other code: start with --record")


def _run_of(rig: Rig, commit: str, command: str, findings: Findings) -> Run:
    return Run(
        rig=rig.name,
        fault=rig.fault,
        counts=dict(findings.counts),
        figures={name: round(value, 3) for name, value in findings.figures.items()},
        violations=findings.violations,
        date=datetime.now(UTC).date().isoformat(),
        commit=commit,
        commands=[command],
    )


def _git(*words: str) -> str:
    done = subprocess.run(("git", *words), capture_output=True, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
