"""Every asynchronous class of `roquet` has a blocking twin with the same methods."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import roquet

ASYNC_PREFIX = "Async"


class Parameter(NamedTuple):
    name: str
    kind: Any
    default: object


def twins() -> list[tuple[type, type]]:
    return [
        (getattr(roquet, name), getattr(roquet, name.removeprefix(ASYNC_PREFIX)))
        for name in roquet.__all__
        if name.startswith(ASYNC_PREFIX)
    ]


def public_methods(kind: type) -> dict[str, Callable[..., Any]]:
    return {
        name: method
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") or name == "__init__"
    }


def parameters(method: Callable[..., Any]) -> list[Parameter]:
    """Not their types: a blocking listener cannot be a coroutine function."""
    return [
        Parameter(each.name, each.kind, each.default)
        for each in inspect.signature(method).parameters.values()
    ]


def test_there_are_twins() -> None:
    assert len(twins()) >= 2


@pytest.mark.parametrize(
    ("asynchronous", "blocking"), twins(), ids=lambda kind: getattr(kind, "__name__", "")
)
def test_every_method_has_a_twin_with_the_same_parameters(
    asynchronous: type, blocking: type
) -> None:
    wanted = {name: parameters(method) for name, method in public_methods(asynchronous).items()}
    found = {name: parameters(method) for name, method in public_methods(blocking).items()}
    # Who has an event loop makes a task of `send` instead.
    if (submit := found.pop("submit", None)) is not None:
        assert submit == wanted["send"]
    assert found == wanted
    assert len(wanted) > 3


@pytest.mark.parametrize(
    ("asynchronous", "blocking"), twins(), ids=lambda kind: getattr(kind, "__name__", "")
)
def test_no_blocking_method_has_to_be_awaited(asynchronous: type, blocking: type) -> None:
    methods = public_methods(blocking).values()
    assert not any(map(inspect.iscoroutinefunction, methods))
    assert not any(map(inspect.isasyncgenfunction, methods))
    if hasattr(asynchronous, "__aenter__"):
        assert hasattr(blocking, "__enter__")
