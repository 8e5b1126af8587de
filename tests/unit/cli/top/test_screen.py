"""`roquet top` in a terminal, with keys."""

import json
import signal

import pytest

from tests.support.command_line import roquet
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
        terminal.press("ss")
        terminal.wait_for("messages*")
        terminal.press("b")
        assert "broker-b" in terminal.wait_for("disk used")
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
