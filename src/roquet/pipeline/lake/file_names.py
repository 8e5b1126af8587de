"""Names of files in a lake: derived from their content, so the same messages get the same name."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote
from uuid import uuid4

from roquet.pipeline.lake.file_ranges import MissingRange

CONTROL_DIRECTORY: Final = "_roquet"
STAGED_DIRECTORY: Final = f"{CONTROL_DIRECTORY}/staged"
PARTITIONING: Final = ("topic", "dt", "hour")
_HOUR_S: Final = 3600


def published_path(wanted: MissingRange, start: int, end: int, hour: int) -> str:
    """Below the lake, for messages stored in an hour that is counted from 1970, in UTC."""
    queue = wanted.range.queue
    moment = datetime.fromtimestamp(hour * _HOUR_S, UTC)
    name = f"{_escaped(queue.topic)}-{_escaped(queue.broker_name)}-{queue.queue_id}-{start}-{end}"
    if wanted.generation:
        name += f"-g{wanted.generation}"
    return f"topic={_escaped(queue.topic)}/dt={moment:%Y-%m-%d}/hour={moment:%H}/{name}.parquet"


def compacted_path(directory: str, entry_number: int, index: int) -> str:
    """Of a file that the entry compacts others into; no piece has such a name."""
    topic = directory.partition("/")[0].removeprefix("topic=")
    return f"{directory}/{topic}-joined-{entry_number}-{index}.parquet"


def directory_of(path: str) -> str:
    """Below the lake: one for each topic and hour."""
    return path.rpartition("/")[0]


def hour_of(directory: str) -> int:
    """The hour, counted from 1970, in which the messages of a directory were stored."""
    values = partition_values(directory)
    moment = datetime.strptime(f"{values['dt']} {values['hour']} +0000", "%Y-%m-%d %H %z")
    return int(moment.timestamp()) // _HOUR_S


def partition_values(directory: str) -> dict[str, str]:
    """Topic, date and hour, from the names of directories."""
    pairs = (part.partition("=") for part in directory.split("/"))
    return {name: unquote(value) for name, _, value in pairs}


def quarantine_of(lake: Path) -> Path:
    """Beside the lake, where its readers do not find it."""
    return lake.with_name(f"{lake.name}-quarantine")


def staged_path(run: str) -> str:
    """A new one each time: two attempts of a task do not disturb each other.

    Readers that look for Parquet skip what is below `_`, or what does not end in `.parquet`.
    """
    return f"{STAGED_DIRECTORY}/{run}/{uuid4().hex}.staged"


def _escaped(name: str) -> str:
    """As in Hive. Readers skip files that start with `_` or `.`."""
    text = quote(name, safe="")
    return f"%{ord(text[0]):02X}{text[1:]}" if text[0] in "_." else text
