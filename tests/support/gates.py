"""Two gates: `make test` runs what has to pass before every commit, `make test-full` everything.

ROQUET_GATE=quick leaves out what is marked `full` with its reason, and all but one Apache version
of each test; which one, a hash of the test's name decides, so that each version is the judge of
half of them. These are the decisions and what tests ask for their counts; `gate_plugin.py` acts on
them.
"""

import os
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pytest

IS_QUICK: Final = os.environ.get("ROQUET_GATE") == "quick"
IS_FULL: Final = os.environ.get("ROQUET_GATE") == "full"
IS_LONG: Final = bool(os.environ.get("ROQUET_LONG"))

OTHER_VERSION: Final = "the same with the other Apache version"
# What is run by both gates, but not as often by the quick one.
FEWER: Final = {
    "tests/property": "200 new examples a test instead of the same 50",
    "tests/faults": "four times as many faults of each rig",
    "tests/crash": "more kills of a broker that delivers delayed messages",
}
# Where the Apache version in the id of a test is the one that it runs with.
JUDGED: Final = ("tests/interop/", "tests/pipeline/")
_VERSION: Final = re.compile(r"4\.9\.7|5\.5\.0")


def few(values: Iterable[Any], count: int, others: str) -> list[Any]:
    """Parameters of a test, of which the quick gate has the first `count`."""
    return [
        value if number < count else pytest.param(value, marks=pytest.mark.full(others))
        for number, value in enumerate(values)
    ]


def folder_of(node_id: str) -> str:
    """`tests/unit` of a test below it, `tests` of one that lies in no folder."""
    first, *others = node_id.partition("::")[0].split("/")
    return f"{first}/{others[0]}" if others[1:] else first


def other_versions(node_ids: Iterable[str]) -> set[str]:
    """The tests that another one does with another Apache version."""
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for node_id in node_ids:
        name, _, parameters = node_id.partition("[")
        if node_id.startswith(JUDGED) and _VERSION.search(parameters):
            alike[f"{name}[{_VERSION.sub('*', parameters)}"].append(node_id)
    left_out: set[str] = set()
    for name, found in alike.items():
        chosen = sorted(found)[zlib.crc32(name.encode()) % len(found)]
        left_out.update(each for each in found if each != chosen)
    return left_out


def version_of(node_id: str) -> str | None:
    """The Apache version among the parameters of a test, if there is exactly one."""
    found = set(_VERSION.findall(node_id.partition("[")[2]))
    return found.pop() if len(found) == 1 else None


def minutes_table(seconds: Mapping[str, float], elapsed_s: float) -> list[str]:
    whole = f"minutes by folder, of all workers together; {elapsed_s / 60:.1f} since the start"
    rows = [f"  {folder:<16} {spent / 60:6.1f}" for folder, spent in sorted(seconds.items())]
    return [whole, *rows]


def left_out_table(left_out: Iterable[Iterable[str]], folders: Iterable[str]) -> list[str]:
    """What the full gate would add, by folder and reason; `folders` are those that were run."""
    counted = Counter(tuple(each) for each in left_out)
    rows = [f"  {folder:<16} {count:5} tests: {why}" for (folder, why), count in counted.items()]
    rows += [f"  {folder:<16}   {FEWER[folder]}" for folder in folders if folder in FEWER]
    return ["make test-full would add", *sorted(rows)] if rows else []
