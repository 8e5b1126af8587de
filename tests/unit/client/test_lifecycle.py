"""Clients are opened once and closed once; a fork has a process id of its own."""

import os

import pytest

from roquet.client.errors import BadArgument, NotOpen
from roquet.client.lifecycle import Lifecycle, current_process_id
from tests.support.raising import raises


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_fork_has_a_number_of_its_own() -> None:
    assert current_process_id() == os.getpid()
    child = os.fork()
    if not child:
        os._exit(0 if current_process_id() == os.getpid() else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert current_process_id() == os.getpid()


class _Instance:
    def check_usable(self) -> None: ...

    def check_loop(self) -> None: ...


class _Session:
    """One whose `open` fails as often as configured."""

    def __init__(self, failures: list[Exception]) -> None:
        self.instance = _Instance()
        self.events: list[str] = []
        self._failures = failures

    async def open(self, timeout_s: float | None) -> None:
        self.events.append(f"open {timeout_s}")
        if self._failures:
            raise self._failures.pop()

    async def close(self) -> None:
        self.events.append("close")


async def test_a_client_that_is_left_open_is_warned_of() -> None:
    lifecycle = Lifecycle("tool", lambda: _Session([]))
    await lifecycle.open()
    with pytest.warns(ResourceWarning, match="^tool was left open: use `async with`, or close"):
        del lifecycle


async def test_a_client_that_was_closed_or_never_open_is_not_warned_of(
    recwarn: pytest.WarningsRecorder,
) -> None:
    never, closed = (Lifecycle("tool", lambda: _Session([])) for _ in range(2))
    await closed.open()
    await closed.close()
    del never, closed
    assert not recwarn.list


async def test_a_client_is_usable_between_open_and_close() -> None:
    lifecycle = Lifecycle("tool", lambda: _Session([]))
    with raises(NotOpen, what="tool", was_open=False):
        lifecycle.usable()
    await lifecycle.open(3.0)
    await lifecycle.open()
    assert lifecycle.usable().events == ["open 3.0"]
    await lifecycle.close()
    with raises(NotOpen, what="tool", was_open=True):
        lifecycle.usable()


async def test_a_closed_client_is_not_opened_again() -> None:
    lifecycle = Lifecycle("tool", lambda: _Session([]))
    await lifecycle.open()
    session = lifecycle.session
    await lifecycle.close()
    await lifecycle.close()
    assert session is not None
    assert session.events == ["open None", "close"]
    with pytest.raises(NotOpen):
        await lifecycle.open()


async def test_a_failed_open_is_closed_and_may_be_repeated() -> None:
    sessions: list[_Session] = []
    failures: list[Exception] = [OSError("no route")]

    def new_session() -> _Session:
        sessions.append(_Session(failures))
        return sessions[-1]

    lifecycle = Lifecycle("tool", new_session)
    with pytest.raises(OSError, match="no route"):
        await lifecycle.open()
    assert sessions[0].events == ["open None", "close"]
    with pytest.raises(NotOpen):
        lifecycle.usable()
    await lifecycle.open()
    assert lifecycle.usable() is sessions[1]
    await lifecycle.close()


async def test_an_impossible_timeout_is_refused_before_anything_is_made() -> None:
    lifecycle = Lifecycle("tool", lambda: _Session([]))
    with raises(BadArgument, argument="timeout_s"):
        await lifecycle.open(-1.0)
    assert lifecycle.session is None
