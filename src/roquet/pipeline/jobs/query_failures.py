"""Why a query ended, in one line: Spark wraps what its Python processes raise in pages of text."""

import re
from typing import Final

from roquet.pipeline.errors import PipelineError

# A line that ends a Python traceback: the error's full name, and what it says.
_OURS: Final = re.compile(r"^roquet(?:\.\w+)*\.(?:\w+): (?P<said>.+)$")
_THEIRS: Final = re.compile(r"^(?P<said>(?:\w+\.)*\w*(?:Error|Exception|Interrupt): .+)$")
# Spark gives a Python process ten seconds to start, whatever else the machine does.
_TOO_SLOW: Final = ("failed to connect back", "CANNOT_OPEN_SOCKET")


class QueryFailed(PipelineError):
    """A query ended by an error; the text is what was raised first, in one line."""


def failure_of(text: str) -> QueryFailed:
    """What to tell of an error, by all that Spark says about it."""
    if is_slow_start(text):
        return QueryFailed(
            "Spark's Python did not start within the ten seconds it has: the machine is too busy;"
            " start again when it is less so"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for pattern in (_OURS, _THEIRS):
        for line in lines:
            if found := pattern.match(line):
                return QueryFailed(found["said"])
    return QueryFailed(lines[0] if lines else "Spark does not say why")


def is_slow_start(text: str) -> bool:
    """Whether it failed because the machine was busy; started again it may not."""
    return any(each in text for each in _TOO_SLOW)
