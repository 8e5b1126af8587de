"""Every example runs, and says what it is there to show."""

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet.testing import BlockingCluster

EXAMPLES = Path(__file__).parents[1] / "examples"
# It brings its own cluster; `make demo` runs it.
STANDS_ALONE = {"demo.py", "demo_spark.py"}

SAID = {
    "admin.py": ["5 messages", "offset 3", "are 2 behind", "repeat 3 messages", "are 5 behind"],
    "batches.py": ["1000 messages in", "up to 32"],
    "broadcasting.py": ["2 members got soup"],
    "delays.py": ["by level: after", "by time: after", "by moment: after"],
    "filters.py": ["by tags: coffee 2.40, coffee 3.10, tea 1.90", "by SQL:  coffee 2.40"],
    "ordering.py": [f"order-{number}: ordered, paid, served" for number in (1, 2, 3)],
    "producer.py": ["stored at offset", "stored_count=10000"],
    "pull.py": ["polled 100", "came twice", "archived 100"],
    "push.py": ["a function got 10", "a coroutine got 10", "a loop got 10"],
    "request_reply.py": ["coffee: 2.40", "tea: 1.90"],
    "retries.py": ["soup: done at try 2", "dead letter: rotten, nobody can cook this"],
    "typed_topics.py": ["parcel 7 to Rome, express"],
    "transactions.py": ["shipped: order 1, order 3"],
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    with BlockingCluster() as cluster:
        yield cluster


def test_each_example_is_run_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == SAID.keys() | STANDS_ALONE


@pytest.mark.parametrize("turn", ["first", "second"])
@pytest.mark.parametrize("name", SAID)
def test_an_example_says_what_it_shows_however_often_it_is_run(
    name: str,
    turn: str,
    cluster: BlockingCluster,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Not so narrow that lines are broken.
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "argv", [name, cluster.name_server])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    printed = capsys.readouterr().out
    assert not [line for line in SAID[name] if line not in printed], printed
