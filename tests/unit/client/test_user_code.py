"""Functions of programs: plain ones get a thread, and what they raise ends with them."""

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from roquet.client.errors import SendForbidden
from roquet.client.user_code import call, call_or, tell


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


def test_all_are_told_even_if_one_fails(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    tell([told.append, fail, told.append], "news")
    assert told == ["news", "news"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_only_what_forbids_a_send_passes() -> None:
    def forbid(_news: object) -> None:
        raise SendForbidden("orders", "closed on Sundays")

    with pytest.raises(SendForbidden, match="closed on Sundays"):
        tell([forbid], "news")
