"""Names of files in a lake: from what is in them, so that the same messages get the same name."""

from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote
from uuid import uuid4

from roquet.pipeline.lake.state import Wanted

CONTROL_DIRECTORY: Final = "_roquet"
STAGED_DIRECTORY: Final = f"{CONTROL_DIRECTORY}/staged"
PARTITIONING: Final = ("topic", "dt", "hour")
_HOUR_S: Final = 3600


def published_path(wanted: Wanted, start: int, end: int, hour: int) -> str:
    """Below the lake, for messages stored in an hour that is counted from 1970, in UTC."""
    queue = wanted.range.queue
    moment = datetime.fromtimestamp(hour * _HOUR_S, UTC)
    name = f"{_escaped(queue.topic)}-{_escaped(queue.broker_name)}-{queue.queue_id}-{start}-{end}"
    if wanted.generation:
        name += f"-g{wanted.generation}"
    return f"topic={_escaped(queue.topic)}/dt={moment:%Y-%m-%d}/hour={moment:%H}/{name}.parquet"


def staged_path(run: str) -> str:
    """A new one each time: of two attempts at a task neither disturbs the other.

    Readers that look for Parquet skip what is below `_`, or what does not end in `.parquet`.
    """
    return f"{STAGED_DIRECTORY}/{run}/{uuid4().hex}.staged"


def _escaped(name: str) -> str:
    """As Hive and its readers have it. They skip files that begin with `_` or `.`."""
    text = quote(name, safe="")
    return f"%{ord(text[0]):02X}{text[1:]}" if text[0] in "_." else text
