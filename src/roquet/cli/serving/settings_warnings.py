"""What an operator is told of the settings of a file that are not obeyed, in one line each."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

log = logging.getLogger(__name__)


def warn_of_settings(
    path: Path, ignored: Sequence[str], is_known: Callable[[str], bool], doubtful: Sequence[str]
) -> None:
    """`ignored` have no effect, `doubtful` are taken for false."""
    if ignored:
        known = [key for key in ignored if is_known(key)]
        unknown = [key for key in ignored if not is_known(key)]
        parts = [
            *([f"settings without effect: {', '.join(known)}"] if known else []),
            *([f"unknown, perhaps mistyped: {', '.join(unknown)}"] if unknown else []),
        ]
        log.warning("%s: %s", path, "; ".join(parts))
    if doubtful:
        log.warning("%s: taken for false, as Java does: %s", path, ", ".join(doubtful))
