"""How much a server writes to its log, which may be changed while it runs."""

import logging
from enum import Enum
from typing import Final


class LogLevel(Enum):
    """What is logged is at least as important; by the names that Python has for it."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


DEFAULT: Final = LogLevel.INFO


def obey_log_level(level: LogLevel) -> None:
    """From now on, for everything of ours in this process."""
    logging.getLogger("roquet").setLevel(level.value)


def obey_log_level_from_start(level: LogLevel) -> None:
    """A server that was told nothing leaves the log to the program that it runs in."""
    if level is not DEFAULT:
        obey_log_level(level)
