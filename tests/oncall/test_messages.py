"""Stories of messages that fail, wait, or hold up a listener."""

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from roquet import DeadLetter
from roquet.client.received import ReceivedMessage
from tests.oncall.conftest import GROUP, TOPIC, OnCall
from tests.support.eventually import wait_until

pytestmark = pytest.mark.slow


def ignore(_: ReceivedMessage) -> None:
    """A listener that has nothing to do."""


def failing(error: Exception) -> Callable[[ReceivedMessage], None]:
    def fail(_: ReceivedMessage) -> None:
        raise error

    return fail


def hold_until(is_answered: threading.Event) -> Callable[[ReceivedMessage], None]:
    def wait_for_the_bank(_: ReceivedMessage) -> None:
        is_answered.wait()

    return wait_for_the_bank


def retries(on_call: OnCall) -> tuple[int, int]:
    """Those that wait for their time, and those that are ready."""
    shown = on_call.shows("group", "show", GROUP)
    return shown["retries_waiting"], shown["retries_ready"]


def members(on_call: OnCall) -> list[Any]:
    rows: list[Any] = on_call.shows("group", "show", GROUP).get("members", [])
    return rows


def test_a_message_that_waits_for_its_next_try_is_seen(on_call: OnCall) -> None:
    on_call.send("k1")
    with on_call.consumer(failing(ValueError("the bank is closed"))):
        wait_until(lambda: retries(on_call) == (1, 0))
    # Its consumers have gone, and the lag of the group is 0.
    assert on_call.lag() == 0
    assert "next retry" in on_call.says("group", "show", GROUP)
    (row,) = on_call.shows("group", "list")["groups"]
    assert (row["group"], row["retries_waiting"]) == (GROUP, 1)
    doctor = on_call.says("doctor", exit_code=1)
    assert "no member is connected; 1 messages wait for their next try" in doctor
    assert "start its consumers" in doctor
    with on_call.consumer(ignore):
        wait_until(lambda: retries(on_call) == (0, 0) and on_call.lag() == 0)
        assert "0 problems, 0 warnings" in on_call.says("doctor")


def test_a_group_that_was_left_names_its_last_members(on_call: OnCall) -> None:
    with on_call.consumer(ignore):
        on_call.send("k1", "k2")
        wait_until(lambda: on_call.lag() == 0)
        client_id = members(on_call)[0]["client"]
        assert "without_members_since" not in on_call.shows("group", "show", GROUP)
    on_call.send("k3", "k4")
    shown = on_call.shows("group", "show", GROUP)
    since = shown["without_members_since"]
    (left,) = shown["past_members"]
    assert (left["client"], left["left"]) == (client_id, since)
    doctor = on_call.says("doctor", exit_code=1)
    assert "no member is connected; 2 messages are waiting; its last members left at" in doctor
    assert client_id in doctor
    # That survives a restart.
    for broker in (on_call.one, on_call.two):
        broker.stop()
        broker.start()
    wait_until(lambda: on_call.shows("group", "members", GROUP).get("members") == 0)
    restarted = on_call.shows("group", "members", GROUP)
    assert restarted["without_members_since"] == since
    assert client_id in on_call.says("group", "members", GROUP)


def test_a_stuck_listener_is_found_with_its_message_and_its_stack(on_call: OnCall) -> None:
    is_answered = threading.Event()

    (receipt,) = on_call.send("order-1")
    with on_call.consumer(hold_until(is_answered)):
        try:
            wait_until(lambda: [each["in_hand"] for each in members(on_call)] == [1])
            (member,) = members(on_call)
            assert (member["oldest"], member["key"]) == (receipt.message_id, "order-1")
            assert (member["topic"], member["broker"]) == (TOPIC, receipt.queue.broker_name)
            assert member["since"]
            assert f"@{os.getpid()}#" in member["client"]
            assert "wait_for_the_bank" in on_call.says("group", "show", GROUP, "--stack")
        finally:
            is_answered.set()
        wait_until(lambda: on_call.lag() == 0)
        assert [each["in_hand"] for each in members(on_call)] == [0]


def test_a_poison_message_is_sent_again_once_its_consumers_are_mended(on_call: OnCall) -> None:
    on_call.send("order-1")
    with on_call.consumer(failing(ValueError("no price")), retry_count_max=0):
        wait_until(lambda: on_call.shows("dlq", "list").get("groups"))
    assert "has 1 dead letters" in on_call.says("doctor")
    shown = on_call.says("dlq", "show", GROUP)
    assert "order-1" in shown
    assert "no price" in shown
    bodies: list[bytes] = []
    with on_call.consumer(lambda message: bodies.append(message.body)):
        assert "1" in on_call.says("dlq", "resend", GROUP, "--dry-run")
        on_call.says("dlq", "resend", GROUP, exit_code=1)
        assert "resent 1 messages" in on_call.says("dlq", "resend", GROUP, "--yes")
        wait_until(lambda: bodies == [b"order-1"])
        assert "0 problems, 0 warnings" in on_call.says("doctor")
        again = on_call.says("dlq", "resend", GROUP, "--yes", exit_code=1)
        assert "were resent before" in again
    assert bodies == [b"order-1"]


def states(on_call: OnCall, message_id: str) -> dict[str, str]:
    shown = on_call.shows("message", "by-id", TOPIC, message_id)
    return {each["group"]: each["state"] for each in shown.get("groups", [])}


def test_a_message_is_tracked_through_every_state(on_call: OnCall) -> None:
    (receipt,) = on_call.send("order-1")
    is_answered = threading.Event()
    listeners: dict[str, Callable[[ReceivedMessage], None]] = {
        "archive": ignore,
        "billing": failing(ValueError("the bank is closed")),
        "mail": failing(DeadLetter("no address")),
        "stock": hold_until(is_answered),
    }
    expected = {
        "archive": "consumed",
        "billing": "waits for retry",
        "mail": "dead letter",
        "stock": "waiting",
        "audit": "filtered",
    }
    with ExitStack() as running:
        for group, listener in listeners.items():
            running.enter_context(on_call.consumer(listener, group))
        running.callback(is_answered.set)
        running.enter_context(on_call.consumer(ignore, "audit", tags="paid"))
        wait_until(lambda: states(on_call, receipt.message_id) == expected)
    # A retry or dead letter may be at the other broker as well.
    other = on_call.two if receipt.queue.broker_name == on_call.one.broker_name else on_call.one
    other.kill()
    wait_until(lambda: states(on_call, receipt.message_id)["archive"] == "broker not asked")
    printed = on_call.says("message", "by-id", TOPIC, receipt.message_id, exit_code=3)
    assert f"see problem: {other.broker_name}" in printed
