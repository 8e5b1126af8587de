"""docs/java_names.md: what it says we call something is called so."""

import dataclasses
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import roquet
from tests.support.page_blocks import DOCS
from tests.support.shell_lines import fault_of

_ROW = re.compile(r"^\| (.+?) (?<!\\)\| (.+) \|$", re.MULTILINE)
ROWS = [row for row in _ROW.findall((DOCS / "java_names.md").read_text()) if row[0] != "Java"]
OURS = sorted({name for _, ours in ROWS for name in re.findall(r"`([^`]+)`", ours)})
# Arguments, which are described with their method or class, and what Python itself has.
ARGUMENTS: dict[str, Callable[..., Any]] = {
    "order_key": roquet.Producer.send,
    "queue": roquet.Producer.send,
    "delay_level": roquet.Producer.send,
    "delay": roquet.Producer.send,
    "tags": roquet.PushConsumer.subscribe,
    "sql": roquet.PushConsumer.subscribe,
    "check": roquet.TransactionProducer.__init__,
}
OF_PYTHON = {"datetime"}


@pytest.mark.parametrize("name", OURS)
def test_it_is_called_so(name: str) -> None:
    if name in ARGUMENTS:
        assert name in inspect.signature(ARGUMENTS[name]).parameters
    elif name.startswith("roquet "):
        assert fault_of(name) is None
    elif name not in OF_PYTHON:
        owner, _, member = name.partition(".")
        assert owner in roquet.__all__
        assert not member or has_member(getattr(roquet, owner), member)


def has_member(owner: type, name: str) -> bool:
    fields = (
        [each.name for each in dataclasses.fields(owner)] if dataclasses.is_dataclass(owner) else []
    )
    return hasattr(owner, name) or name in fields


def test_there_are_rows_and_they_are_of_two_sides() -> None:
    assert len(ROWS) > 80
    assert all(java.startswith("`") for java, _ in ROWS if not java.startswith("-"))
