"""What holds for all files of a lake, decided when it is made: `lake.json`."""

from enum import StrEnum
from pathlib import Path
from typing import Final, final
from uuid import uuid4

import msgspec

from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.durable import create_whole, make_directories
from roquet.pipeline.lake.file_names import CONTROL_DIRECTORY, PARTITIONING
from roquet.pipeline.lake.publish_log import LOG_DIRECTORY
from roquet.protocol.record_columns import PropertiesForm

SETTINGS_FILE: Final = f"{CONTROL_DIRECTORY}/lake.json"
LAKE_VERSION: Final = 1
# Files of a few to some tens of megabytes, and enough of them to keep all cores busy.
GRID_DEFAULT: Final = 100_000


class LakeFormat(StrEnum):
    # Files that any reader finds by their names.
    PARQUET = "parquet"
    # The same files, and a log beside them by which readers of Delta find them.
    DELTA = "delta"


@final
class LakeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`grid`: files never reach across a multiple of it. The rest is what was asked of topics.

    Each lake has an `id` of its own; one that was deleted and made again is another lake.
    """

    version: int = LAKE_VERSION
    id: str = msgspec.field(default_factory=lambda: uuid4().hex)
    grid: int = GRID_DEFAULT
    format: LakeFormat = LakeFormat.PARQUET
    partitioning: tuple[str, ...] = PARTITIONING
    properties: PropertiesForm = PropertiesForm.MAP
    tag_expression: str | None = None
    sql_expression: str | None = None


def read_settings(lake: Path) -> LakeSettings | None:
    """None if there is no lake there. Raises BadLake."""
    path = lake / SETTINGS_FILE
    try:
        settings = msgspec.json.decode(path.read_bytes(), type=LakeSettings)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except msgspec.DecodeError as error:
        raise BadLake(f"{path} is damaged: {error}") from None
    if settings.version != LAKE_VERSION or settings.partitioning != PARTITIONING:
        raise BadLake(
            f"{path} has version {settings.version} and partitions {settings.partitioning}:"
            " a newer Roquet made this lake"
        )
    if settings.grid <= 0:
        raise BadLake(f"{path} has a grid of {settings.grid}")
    return settings


def make_settings(lake: Path, settings: LakeSettings) -> LakeSettings:
    """Make a lake of an empty directory; if others do so too, theirs may win. Raises BadLake."""
    strange = [each.name for each in lake.iterdir() if each.name != CONTROL_DIRECTORY]
    if strange:
        raise BadLake(
            f"{lake} is not empty and no lake: there is {min(strange)!r}; name a directory that is"
            " empty or not there yet"
        )
    make_directories(lake / LOG_DIRECTORY)
    try:
        create_whole(lake / SETTINGS_FILE, msgspec.json.format(msgspec.json.encode(settings)))
    except FileExistsError:
        made = read_settings(lake)
        assert made is not None
        return made
    return settings
