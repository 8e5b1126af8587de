"""Code that dies at a chosen step: at its n-th change of the file system, before it is made."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_STEPS = frozenset(
    {"os.link", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "ctypes.dlsym", "os.truncate"}
)
# A hook stays for good, so there is one for all.
_steps_left: list[int] = []
_installed: list[bool] = []


class Killed(BaseException):
    """Nobody may take it for an error."""


@contextmanager
def killed_at(step: int) -> Iterator[None]:
    """From the step on nothing is changed any more, whoever tries to clean up."""
    if not _installed:
        sys.addaudithook(_count)
        _installed.append(True)
    _steps_left[:] = [step]
    try:
        yield
    finally:
        _steps_left.clear()


def _count(event: str, _arguments: tuple[object, ...]) -> None:
    if _steps_left and event in _STEPS:
        _steps_left[0] -= 1
        if _steps_left[0] <= 0:
            raise Killed(event)
