"""The simulation as a rig, in a process whose sets have the same order each time.

Python hashes texts differently in each process, and with them the order of sets: a seed that found
something in one would find nothing in the next.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from tests.faults.findings import Findings
from tests.faults.rig import Rig
from tests.faults.simulation.schedules import run_schedules

_SAME_EACH_TIME: Final = {"PYTHONHASHSEED": "0"}


class _Seen(NamedTuple):
    counts: dict[str, int]
    violations: list[str]


def simulate(directory: Path, seed: int, count: int) -> Findings:
    command = (sys.executable, "-m", __name__, str(directory), str(seed), str(count))
    done = subprocess.run(
        command, env=os.environ | _SAME_EACH_TIME, stdout=subprocess.PIPE, check=True
    )
    seen = msgspec.json.decode(done.stdout, type=_Seen)
    return Findings(Counter(seen.counts), seen.violations)


SIMULATION: Final = Rig(
    "simulation",
    "broker and clients under virtual time: cuts, pauses, kills, power cuts, failed syncs",
    simulate,
    few=60,
    many=10_000,
)

if __name__ == "__main__":
    place, first, number = sys.argv[1:]
    found = run_schedules(Path(place), int(first), int(number))
    seen = _Seen(dict(found.counts), found.violations)
    sys.stdout.buffer.write(msgspec.json.encode(seen))
