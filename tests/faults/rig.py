"""One kind of fault that is done to real servers again and again, by a seed."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.faults.findings import Findings


def anywhere() -> str | None:
    return None


class Rig(NamedTuple):
    """`run` does its fault `count` times in a directory, as `seed` decides.

    `few` of them are done by `make test`, `many` when hours are given. `missing` says why this
    machine cannot do it, if so.
    """

    name: str
    fault: str
    run: Callable[[Path, int, int], Findings]
    few: int
    many: int
    missing: Callable[[], str | None] = anywhere
    needs_java: bool = False
