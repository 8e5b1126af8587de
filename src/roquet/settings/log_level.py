"""The log level of a server, which may be changed while it runs."""

import logging
from enum import Enum
from typing import Final


class LogLevel(Enum):
    """The lowest level that is logged, by Python's names."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


DEFAULT: Final = LogLevel.INFO


def obey_log_level(level: LogLevel) -> None:
    """Sets the level of all loggers of roquet in this process."""
    logging.getLogger("roquet").setLevel(level.value)


def obey_log_level_from_start(level: LogLevel) -> None:
    """Without a configured level, logging is left to the program that runs the server."""
    if level is not DEFAULT:
        obey_log_level(level)
