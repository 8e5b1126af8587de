"""One kind of fault that is done to real servers again and again, by a seed."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.faults.findings import Findings


def anywhere() -> str | None:
    return None


class Rig(NamedTuple):
    """`run` does its fault `count` times in a directory, as `seed` decides.

    `few` of them are done by `make test`, `many` when hours are given. `missing` is why this
    machine cannot do it, if so.
    """

    name: str
    fault: str
    run: Callable[[Path, int, int], Findings]
    few: int
    many: int
    missing: Callable[[], str | None] = anywhere
    needs_java: bool = False


# One whole course of events in a directory of its own, as chance decides.
Scenario = Callable[[Path, Random], Findings]


def in_turn(*scenarios: Scenario) -> Callable[[Path, int, int], Findings]:
    """So many scenarios, each of them before one comes again."""

    def run(directory: Path, seed: int, count: int) -> Findings:
        findings = Findings()
        for number in range(count):
            scenario = scenarios[number % len(scenarios)]
            with TemporaryDirectory(dir=directory) as place:
                found = scenario(Path(place), Random(f"{seed} {number}"))
            name = scenario.__name__.replace("_", " ")
            found.violations = [f"{name}: {each}" for each in found.violations]
            findings.add(found)
        return findings

    return run
