"""Which SDK of 5.x can do what at the gRPC endpoint: the stories that tests have them run.

A story that is added, or that an SDK learns, changes the table of docs/compatibility.md.
"""

from typing import Final

from tests.support.sdk_stories import LACKING, STORIES

_TESTED: Final = "yes"
_NOT_TESTED: Final = "-"


def matrix() -> str:
    head = f"| what | {' | '.join(LACKING)} |"
    line = "|---" * (len(LACKING) + 1) + "|"
    return "\n".join((head, line, *(_row(name) for name in STORIES)))


def _row(name: str) -> str:
    cells = (_NOT_TESTED if name in lacking else _TESTED for lacking in LACKING.values())
    return f"| {STORIES[name].feature} | {' | '.join(cells)} |"
