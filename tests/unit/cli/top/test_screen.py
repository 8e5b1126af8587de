"""`roquet top` in a terminal, with keys."""

import json
import signal

import pytest

from roquet.testing.blocking import BlockingCluster
from tests.support.command_line import roquet
from tests.support.dead_broker import dead_broker
from tests.support.snapshots import check_snapshot
from tests.support.terminal import Terminal
from tests.unit.cli.conftest import Shop


@pytest.mark.slow
def test_keys_change_what_is_seen_and_end_it(at: Shop) -> None:
    with Terminal("top", "--interval", "200ms") as terminal:
        assert "lag" in terminal.wait_for("billing")
        terminal.press("t")
        assert "messages" in terminal.wait_for("orders")
        terminal.press("\r")
        assert "max offset" in terminal.wait_for("queues of orders")
        terminal.press("\x1b")
        terminal.wait_for("topics")
        terminal.wait_for("rate*")
        terminal.press("s")
        terminal.wait_for("messages*")
        terminal.press("b")
        assert "broker-b" in terminal.wait_for("disk used")
        terminal.press("t")
        terminal.wait_for("orders")
        terminal.press("/ord")
        terminal.wait_for("/ord_")
        terminal.press("\r")
        terminal.press(" ")
        terminal.wait_for("paused")
        terminal.press("q")
        assert terminal.wait_for_end() == 0


@pytest.mark.slow
def test_a_signal_ends_it_as_a_key_does(at: Shop) -> None:
    with Terminal("top", "topics", "--interval", "200ms") as terminal:
        terminal.wait_for("orders")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.wait_for_end() == 0


def test_without_a_terminal_there_is_one_table(at: Shop) -> None:
    finished = roquet("top", "topics", "--interval", "10ms", "--json")
    assert finished.exit_code == 0, finished.stderr
    (orders,) = [
        each for each in json.loads(finished.stdout)["topics"] if each["topic"] == "orders"
    ]
    assert (orders["messages"], orders["rate"]) == (5, 0.0)
    assert "billing" in roquet("top", "--once", "--interval", "10ms").stdout


def test_brokers_are_seen_while_one_of_them_is_gone(roquet_cluster: BlockingCluster) -> None:
    address = roquet_cluster.name_server
    with dead_broker(address, "broker-z"):
        words = ("-n", address, "--interval", "10ms", "--timeout", "2", "--json")
        finished = roquet("top", "brokers", *words)
    assert finished.exit_code == 1
    problems = {each["broker"]: each["problem"] for each in json.loads(finished.stdout)["brokers"]}
    assert problems["broker-a"] is None
    assert "cannot be asked" in problems["broker-z"]
    assert "cannot be asked" in finished.stderr


@pytest.mark.parametrize("view", ["topics", "groups", "brokers"])
def test_what_is_printed(at: Shop, monkeypatch: pytest.MonkeyPatch, view: str) -> None:
    check_snapshot(monkeypatch, f"top_{view}", "top", view, "--once", "--interval", "10ms")
