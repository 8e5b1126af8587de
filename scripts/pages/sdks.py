"""Which SDK of 5.x can do what at the gRPC endpoint: the stories that tests have them tell.

A story that is added, or that an SDK learns, changes the table of docs/compatibility.md.
"""

from typing import Final

from tests.support.sdk_stories import NOT_TOLD, STORIES

_TOLD: Final = "yes"
_NOT_TOLD: Final = "-"


def matrix() -> str:
    head = f"| what | {' | '.join(NOT_TOLD)} |"
    line = "|---" * (len(NOT_TOLD) + 1) + "|"
    return "\n".join((head, line, *(_row(name) for name in STORIES)))


def _row(name: str) -> str:
    cells = (_NOT_TOLD if name in lacking else _TOLD for lacking in NOT_TOLD.values())
    return f"| {STORIES[name].feature} | {' | '.join(cells)} |"
