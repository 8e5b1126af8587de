"""`roquet bench`: the columns of Apache's, and what is behind them."""

import json
import re

import pytest

from roquet.testing.blocking import BlockingCluster
from tests.support.command_line import roquet

pytestmark = pytest.mark.slow

# The words of a line of Apache's, in their order.
COLUMNS = {
    "producer": ["Send TPS", "Max RT(ms)", "Average RT(ms)", "Send Failed", "Response Failed"],
    "batch-producer": [
        *("Send TPS", "Send MPS", "Max RT(ms)", "Average RT(ms)", "Average Message RT(ms)"),
        *("Send Failed", "Send Message Failed"),
    ],
    "consumer": [
        *("TPS", "FAIL", "AVG(B2C) RT(ms)", "AVG(S2C) RT(ms)"),
        *("MAX(B2C) RT(ms)", "MAX(S2C) RT(ms)"),
    ],
    "transaction-producer": [
        *("Send TPS", "Max RT(ms)", "AVG RT(ms)", "Send Failed"),
        *("check", "unexpectedCheck", "duplicatedCheck"),
    ],
}


@pytest.fixture(autouse=True)
def _topic(roquet_cluster: BlockingCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", roquet_cluster.name_server)
    roquet_cluster.new_topic("load")


@pytest.mark.parametrize("name", COLUMNS)
def test_lines_have_the_columns_of_apache(name: str) -> None:
    finished = roquet("bench", name, "-t", "load", "--interval", "200ms", "--for", "500ms")
    assert finished.exit_code == 0, finished.stderr
    first, *_, last = finished.stdout.splitlines()
    assert re.match(r"Current Time: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} \| ", first)
    assert [part.partition(":")[0] for part in first.split(" | ")[1:]] == COLUMNS[name]
    assert last.startswith("[Complete] | ")
    assert re.search(r"[▁▂▃▄▅▆▇█]+$", last)


def complete(*words: str) -> dict[str, float]:
    finished = roquet("bench", *words, "--json")
    assert finished.exit_code == 0, finished.stderr
    values: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    return values


def test_a_producer_sends_as_many_as_configured(roquet_cluster: BlockingCluster) -> None:
    flags = ("-q", "50", "-w", "4", "-s", "10", "-k", "true", "-l", "2", "-p", "20", "-m", "false")
    found = complete("producer", "-t", "load", *flags)
    assert (found["Send Total"], found["Send Failed"], found["Response Failed"]) == (50, 0, 0)
    messages = roquet_cluster.received("load")
    assert len(messages) == 50
    assert {len(each.body) for each in messages} == {10}
    assert all(each.keys and each.tags in ("tag0", "tag1") for each in messages)
    assert all("prop0" in each.properties for each in messages)


def test_a_batch_is_one_request(roquet_cluster: BlockingCluster) -> None:
    flags = ("-w", "1", "-b", "8", "--for", "300ms")
    found = complete("batch-producer", "-t", "load", *flags)
    assert found["Send MPS"] > found["Send TPS"] > 0
    assert len(roquet_cluster.received("load")) % 8 == 0


def test_a_consumer_takes_what_there_is() -> None:
    complete("producer", "-t", "load", "-q", "20")
    found = complete("consumer", "-t", "load", "--for", "1500ms", "-r", "1.0")
    assert found["FAIL"] >= 20
    assert found["MAX(B2C) RT(ms)"] >= found["AVG(B2C) RT(ms)"] > 0


def test_transactions_end_as_they_should(roquet_cluster: BlockingCluster) -> None:
    flags = ("-w", "2", "-s", "64", "-sr", "1.0", "-i", "10", "--for", "300ms")
    found = complete("transaction-producer", "-t", "load", *flags)
    assert found["Send TPS"] > 0
    assert found["unexpectedCheck"] == 0
    assert roquet_cluster.received("load") == []


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("producer", "-k", "yes"), "'yes' is not true or false"),
        (("consumer", "-r", "2"), "'2' is not a number from 0.0 to 1.0"),
        (("consumer", "-f", "TAG", "-e", "absent"), "absent: No such file or directory"),
    ],
)
def test_mistakes_are_reported(words: tuple[str, ...], complaint: str) -> None:
    finished = roquet("bench", *words)
    assert finished.exit_code == 2
    assert complaint in finished.stderr
