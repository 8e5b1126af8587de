"""Rows that are selected and sorted."""

import json

import pytest

from roquet.cli.admin_commands.listing import is_match
from tests.support.command_line import roquet
from tests.unit.cli.conftest import Shop


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [("rder", True), ("ORD", True), ("orders?", False), ("o*s", True), ("*rder", False)],
)
def test_a_name_contains_the_text_or_fits_the_pattern(pattern: str, *, matches: bool) -> None:
    assert is_match("orders", pattern) is matches


def test_topics_are_selected_and_sorted(at: Shop) -> None:
    for topic in ("empty-b", "empty-a"):
        at.admin.create_topic(topic)
    sorted_words = ("topic", "list", "--sort", "messages", "--json")
    names = [each["topic"] for each in json.loads(roquet(*sorted_words).stdout)["topics"]]
    assert names == ["orders", "empty-a", "empty-b"]
    filtered = roquet("topic", "list", "--filter", "empty", "--json")
    assert [each["topic"] for each in json.loads(filtered.stdout)["topics"]] == [
        "empty-a",
        "empty-b",
    ]
    for topic in ("empty-b", "empty-a"):
        at.admin.delete_topic(topic)


def test_the_group_with_the_largest_lag_comes_first(at: Shop) -> None:
    at.admin.create_group("audit")
    names = [
        [
            each["group"]
            for each in json.loads(roquet("group", "list", *words, "--json").stdout)["groups"]
        ]
        for words in ((), ("--sort", "lag"), ("--filter", "aud*"))
    ]
    assert names == [["audit", "billing"], ["billing", "audit"], ["audit"]]
    at.admin.delete_group("audit")


def test_a_column_that_does_not_exist_is_refused_by_name(at: Shop) -> None:
    finished = roquet("topic", "list", "--sort", "size")
    assert finished.exit_code == 2
    assert "last_stored" in finished.stderr
