"""What a job wants of a lake, and what the lake is already: they have to agree.

Who reads a lake expects the same columns and the same choice of messages everywhere.
"""

from pathlib import Path
from typing import Final

from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.delta_table import check_delta
from roquet.pipeline.lake.json_columns import JsonColumns, check_evolution, json_columns
from roquet.pipeline.lake.publish_log import PublishLog
from roquet.pipeline.lake.settings import LakeFormat, LakeSettings, read_settings
from roquet.protocol.record_columns import PropertiesForm

_FIXED: Final = ("format", "properties", "tag_expression", "sql_expression")


def format_of(lake: Path, given: str | None) -> LakeFormat:
    """What was asked for, else what the lake is, else Parquet. Raises BadLake."""
    found = read_settings(lake)
    default = found.format if found else LakeFormat.PARQUET
    chosen = LakeFormat(given) if given else default
    if chosen is LakeFormat.DELTA:
        check_delta()
    return chosen


def properties_of(lake: Path) -> PropertiesForm:
    """The form of properties where none was asked for. Raises BadLake."""
    found = read_settings(lake)
    return found.properties if found else PropertiesForm.MAP


def check_settings(lake: Path, wanted: LakeSettings) -> None:
    """Raises BadLake for a lake that was made with something else."""
    found = read_settings(lake)
    for name in _FIXED if found else ():
        here, there = getattr(wanted, name), getattr(found, name)
        if here != there:
            raise BadLake(
                f"the lake {lake} was made with {name.replace('_', ' ')} {_shown(there)}, not"
                f" {_shown(here)}: use the same, or another lake"
            )


def json_columns_of(lake: Path, given: str | None) -> JsonColumns | None:
    """By what bodies are decoded: what was given, else what the lake has. None for not at all.

    Raises BadSchema for columns that do not go on from those of the lake, and BadLake.
    """
    before = PublishLog(lake.absolute()).refresh().json_schema if read_settings(lake) else None
    if given is None:
        return None if before is None else JsonColumns(before)
    columns = json_columns(given)
    check_evolution(before, columns)
    return columns


def _shown(value: str | None) -> str:
    return "none" if value is None else repr(str(value))
