"""Functions of programs: plain ones get a thread, and what they raise ends with them."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pytest

from roquet.client.callbacks import (
    EnteredContexts,
    call,
    call_all,
    call_or,
    error_of,
    merged_results,
)
from roquet.client.errors import SendForbidden
from tests.support.raising import raises


async def double(number: int) -> int:
    return 2 * number


def double_in_a_thread(number: int) -> int:
    assert threading.current_thread() is not threading.main_thread()
    return 2 * number


def return_a_coroutine(number: int) -> Any:
    return double(number)


class Doubler:
    async def __call__(self, number: int) -> int:
        return 2 * number


def fail(*_arguments: object) -> Any:
    raise KeyError("a mistake of the program")


@pytest.mark.parametrize(
    "function",
    [double, double_in_a_thread, Doubler(), partial(double), return_a_coroutine],
    ids=["coroutine", "function", "object", "partial", "function that returns a coroutine"],
)
async def test_every_kind_of_function_is_called(function: Callable[..., Any]) -> None:
    assert await call(function, 21) == 42


async def test_a_failure_is_logged_and_means_what_the_caller_says(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert await call_or("unknown", fail, 1) == "unknown"
    assert "a mistake of the program" in caplog.text


def test_all_are_notified_even_if_one_fails(caplog: pytest.LogCaptureFixture) -> None:
    reported: list[str] = []
    call_all([reported.append, fail, reported.append], "news")
    assert reported == ["news", "news"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_only_what_forbids_a_send_passes() -> None:
    def forbid(_news: object) -> None:
        raise SendForbidden("orders", "closed on Sundays")

    with raises(SendForbidden, topic="orders", reason="closed on Sundays"):
        call_all([forbid], "news")


def test_all_answers_are_gathered_whichever_fails(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_subject: str) -> dict[str, int]:
        raise ValueError("broken")

    sources: list[Callable[[str], dict[str, int]]] = [lambda s: {s: 1}, fail, lambda _: {"b": 2}]
    assert merged_results(sources, "a") == {"a": 1, "b": 2}
    assert "broken" in caplog.text


def test_surroundings_are_left_in_the_opposite_order_with_the_error() -> None:
    seen: list[str] = []

    @contextmanager
    def around(subject: str, name: str) -> Iterator[None]:
        seen.append(f"{name} of {subject}")
        try:
            yield
        except ValueError:
            seen.append(f"{name} saw it")
            raise

    makers = [partial(around, name=name) for name in ("first", "second")]
    with pytest.raises(ValueError, match="why"), EnteredContexts(makers, "x"):
        raise ValueError("why")
    assert seen == ["first of x", "second of x", "second saw it", "first saw it"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_surroundings_that_fail_change_nothing(caplog: pytest.LogCaptureFixture, when: str) -> None:
    @contextmanager
    def around(_subject: str) -> Iterator[None]:
        if when == "before":
            raise ValueError("broken")
        yield
        raise ValueError("broken")

    with EnteredContexts([around], "x"):
        is_inside = True
    assert is_inside
    assert "broken" in caplog.text


def test_surroundings_cannot_hide_what_is_raised_inside() -> None:
    @contextmanager
    def swallow(_subject: str) -> Iterator[None]:
        with suppress(ValueError):
            yield

    with pytest.raises(ValueError, match="why"), EnteredContexts([swallow], "x"):
        raise ValueError("why")


@pytest.mark.parametrize("kind", [ValueError, SystemExit, pytest.fail.Exception])
async def test_whatever_a_hook_raises_is_logged_and_does_no_harm(
    kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_event: object) -> Any:
        raise kind("no reason")

    call_all([fail], 1)
    assert merged_results([fail], 1) == {}
    assert await call_or("otherwise", fail, 1) == "otherwise"
    assert isinstance(await error_of(fail, 1), kind)
    assert [record.exc_info is not None for record in caplog.records] == [True] * 3


def test_ctrl_c_passes_through_a_hook() -> None:
    def interrupted(_event: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call_all([interrupted], 1)
