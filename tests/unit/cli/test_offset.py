"""`roquet offset`."""

import json
from collections.abc import Iterator

import pytest

from roquet.client.group.start_offset import StartFrom
from tests.support.command_line import roquet
from tests.support.snapshots import check_snapshot
from tests.unit.cli.conftest import ORDERS_A, ORDERS_B, Shop


@pytest.fixture(autouse=True)
def _billing_is_where_it_was(shop: Shop) -> Iterator[None]:
    yield
    shop.admin.apply_reset(shop.admin.plan_reset("billing", "orders", {ORDERS_A: 1}))


def committed(shop: Shop, group: str = "billing") -> list[int | None]:
    offsets = {
        each.queue: each.consumer_offset
        for each in shop.admin.progress(group, topic="orders").queues
    }
    return [offsets.get(ORDERS_A), offsets.get(ORDERS_B)]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("offset_show", ("offset", "show", "billing")),
        ("offset_skip", ("offset", "skip", "billing", "orders", "--dry-run")),
        ("offset_clone", ("offset", "clone", "billing", "other", "orders", "--dry-run")),
        ("offset_reset", ("offset", "reset", "billing", "orders", "--to-start", "--dry-run")),
    ],
)
def test_what_is_printed(
    at: Shop, monkeypatch: pytest.MonkeyPatch, name: str, words: tuple[str, ...]
) -> None:
    check_snapshot(monkeypatch, name, *words)


@pytest.mark.parametrize(
    ("words", "offsets"),
    [
        (("--to-start",), [0, 0]),
        (("--to-end",), [3, 2]),
        (("--to-offset", "2"), [2, 2]),
        (("--to-offset", "1", "--queue", "broker-b:1"), [1, 1]),
        (("--to-time", "1h"), [0, 0]),
        (("--to-time", "now"), [3, 2]),
    ],
)
def test_a_group_is_moved(at: Shop, words: tuple[str, ...], offsets: list[int]) -> None:
    finished = roquet("offset", "reset", "billing", "orders", *words, "--yes")
    assert finished.exit_code == 0, finished.stderr
    assert committed(at) == offsets


def test_skipping_leaves_nothing(at: Shop) -> None:
    assert roquet("offset", "skip", "billing", "orders", "--yes").exit_code == 0
    assert at.admin.progress("billing").lag == 0


def test_a_group_goes_where_another_is(at: Shop) -> None:
    # The other queue too: a test before this one may have left an offset there, or none.
    at.admin.apply_reset(at.admin.plan_reset("billing", "orders", {ORDERS_A: 1, ORDERS_B: 2}))
    at.admin.create_group("twin")
    at.admin.apply_reset(at.admin.plan_reset("twin", "orders", StartFrom.LAST))
    finished = roquet("offset", "clone", "billing", "twin", "orders", "--yes", "--json")
    assert finished.exit_code == 0, finished.stderr
    assert json.loads(finished.stdout)["repeated"] == 2
    assert committed(at, "twin")[0] == 1


def test_nothing_moves_without_a_yes(at: Shop) -> None:
    finished = roquet("offset", "reset", "billing", "orders", "--to-end")
    assert finished.exit_code == 1
    assert "skipped" in finished.stdout
    assert "nothing was changed" in finished.stderr
    assert roquet("offset", "reset", "billing", "orders", "--to-end", "--dry-run").exit_code == 0
    assert committed(at)[0] == 1


@pytest.mark.parametrize(
    ("words", "exit_code", "complaint"),
    [
        (("reset", "absent", "orders", "--to-end", "--yes"), 4, "group 'absent' does not exist"),
        (("reset", "billing", "absent", "--to-end", "--yes"), 4, "topic 'absent'"),
        (("reset", "billing", "orders"), 2, "one of the arguments --to-start"),
        (("reset", "billing", "orders", "--to-time", "soon"), 2, "'soon' is not a time"),
        (("skip", "billing", "orders", "--queue", "b"), 2, "'b' is not BROKER:QUEUE"),
        (("skip", "billing", "orders", "--queue", "b:7", "--yes"), 2, "is not a queue of topic"),
        (("clone", "absent", "billing", "orders", "--yes"), 4, "group 'absent' does not exist"),
    ],
)
def test_what_cannot_be_done(
    at: Shop, words: tuple[str, ...], exit_code: int, complaint: str
) -> None:
    finished = roquet("offset", *words)
    assert (finished.exit_code, finished.stdout) == (exit_code, "")
    assert complaint in finished.stderr
