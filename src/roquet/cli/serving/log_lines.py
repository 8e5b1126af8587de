"""Where a server's log goes: to stderr, one line an event.

2026-11-15 20:16:48,123+0100 INFO    roquet.broker.server: broker-a serves at 127.0.0.1:10911

{"time":"2026-11-15T20:16:48.123Z","level":"INFO","logger":"roquet.broker.server",
 "message":"broker-a serves at 127.0.0.1:10911"}            as one line; "error" has a traceback
"""

import logging
import time
from datetime import UTC, datetime
from enum import Enum
from typing import final

import msgspec


class LogForm(Enum):
    TEXT = "text"
    JSON = "json"

    def __str__(self) -> str:
        return self.value


def log_to_stderr(form: LogForm = LogForm.TEXT) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(
        JsonLines()
        if form is LogForm.JSON
        else TextLines("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler])


@final
class TextLines(logging.Formatter):
    """With the zone: logs of machines in different zones are compared."""

    def formatTime(  # noqa: N802  The name is that of `logging`.
        self,
        record: logging.LogRecord,
        datefmt: str | None = None,  # noqa: ARG002
    ) -> str:
        local = time.localtime(record.created)
        text = time.strftime(self.default_time_format, local)
        return f"{text},{record.msecs:03.0f}{time.strftime('%z', local)}"


class _Event(msgspec.Struct, omit_defaults=True):
    time: datetime
    level: str
    logger: str
    message: str
    error: str = ""


@final
class JsonLines(logging.Formatter):
    """One object for each event, on one line whatever is in it."""

    def format(self, record: logging.LogRecord) -> str:
        milliseconds = int(record.created * 1000)
        event = _Event(
            time=datetime.fromtimestamp(milliseconds / 1000, UTC),
            level=record.levelname,
            logger=record.name,
            message=record.getMessage(),
            error=self.formatException(record.exc_info) if record.exc_info else "",
        )
        return msgspec.json.encode(event).decode()
