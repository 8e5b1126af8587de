"""Changes to attributes."""

import pytest

from roquet.broker.errors import BadAttributes, UnsupportedAttribute
from roquet.broker.tables.attributes import (
    ATTRIBUTE_COUNT_MAX,
    changed_attributes,
    check_supported,
    read_attribute_changes,
)
from roquet.protocol.codes import ResponseCode
from tests.support.raising import raises


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        (None, {}),
        ("", {}),
        ("+message.type=FIFO", {"+message.type": "FIFO"}),
        ("+a=1,-b,+c=", {"+a": "1", "-b": "", "+c": ""}),
        ("+a=b=c", {"+a": "b=c"}),
    ],
)
def test_changes_are_read_from_a_header(text: str | None, changes: dict[str, str]) -> None:
    assert read_attribute_changes(text) == changes


@pytest.mark.parametrize("text", ["a=1", "a", "-a=1", "+a", "+a=1,+a=2"])
def test_what_is_no_change_is_refused(text: str) -> None:
    with pytest.raises(BadAttributes) as caught:
        read_attribute_changes(text)
    assert caught.value.code is ResponseCode.SYSTEM_ERROR


def test_attributes_are_added_replaced_removed_and_kept() -> None:
    before = {"kept": "0", "replaced": "1", "removed": "2"}
    after = changed_attributes(before, {"+added": "3", "+replaced": "4", "-removed": ""})
    assert after == {"kept": "0", "added": "3", "replaced": "4"}
    assert before == {"kept": "0", "replaced": "1", "removed": "2"}


@pytest.mark.parametrize("name", ["a", "", "+", "-", "-missing", "*a"])
def test_a_change_that_cannot_be_made_is_refused(name: str) -> None:
    with pytest.raises(BadAttributes):
        changed_attributes({"a": "1"}, {name: "2"})


def test_there_are_only_so_many_attributes() -> None:
    attributes = changed_attributes({}, {f"+{n}": "" for n in range(ATTRIBUTE_COUNT_MAX)})
    with pytest.raises(BadAttributes):
        changed_attributes(attributes, {"+one-more": ""})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("message.type", "PRIORITY"),
        ("message.type", "Lite"),
        ("queue.type", "BatchCQ"),
        ("cleanup.policy", "COMPACTION"),
    ],
)
def test_a_topic_with_an_unsupported_attribute_is_refused(name: str, value: str) -> None:
    with raises(UnsupportedAttribute, topic="orders", attribute=f"{name}={value}"):
        check_supported("orders", {name: value})


def test_other_kinds_of_topics_are_supported() -> None:
    for kind in ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"):
        check_supported("orders", {"message.type": kind, "queue.type": "SimpleCQ"})
