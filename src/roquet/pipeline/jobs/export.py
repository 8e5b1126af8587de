"""`export`: messages of a topic or a lake as files: Parquet, JSON lines or CSV.

Files are written to a temporary directory, which is renamed when all are complete, so a directory
with the requested name is never a part of an export.
"""

import shutil
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

from pyspark.sql import Column, DataFrame, Observation, SparkSession, functions as sql
from pyspark.sql.types import MapType

from roquet.notebook_html import report_html
from roquet.pipeline.data_sources import message_schema
from roquet.pipeline.durable_files import make_directories, put_in_place
from roquet.pipeline.errors import BadOption
from roquet.pipeline.lake.opening import existing_settings
from roquet.pipeline.queries import run_query
from roquet.pipeline.selection import Selection, pinned, selected
from roquet.protocol.record_columns import PropertiesForm

_COUNTED: Final = "rows"
# Files of Spark: a marker of success, and checksums.
_NOT_DATA: Final = ("_", ".")


class FileFormat(StrEnum):
    PARQUET = "parquet"
    JSON = "json"
    CSV = "csv"


class BodyForm(StrEnum):
    """How a body is written in a text format."""

    BASE64 = "base64"
    TEXT = "text"


@dataclass(frozen=True, kw_only=True)
class ExportPlan:
    """`columns` are those of messages; all of them if empty."""

    selection: Selection
    directory: Path
    format: FileFormat = FileFormat.PARQUET
    body: BodyForm = BodyForm.BASE64
    columns: tuple[str, ...] = ()
    files_max: int | None = None


class ExportReport(NamedTuple):
    messages: int
    files: int
    bytes: int
    directory: str

    def _repr_html_(self) -> str:
        return report_html(self)


def check_export(plan: ExportPlan) -> ExportPlan:
    """The plan with its selection pinned. Raises BadOption, BadLake, and what `pinned` raises."""
    if plan.directory.exists():
        raise BadOption("to", f"{plan.directory} already exists: give a directory that does not")
    _check_columns(plan)
    return replace(plan, selection=pinned(plan.selection))


def _check_columns(plan: ExportPlan) -> None:
    lake = plan.selection.lake
    form = PropertiesForm.MAP if lake is None else existing_settings(lake).properties
    there = message_schema(form).fieldNames()
    for name in plan.columns:
        if name not in there:
            raise BadOption("columns", f"messages have no column {name!r}, only {', '.join(there)}")


def export(spark: SparkSession, plan: ExportPlan) -> ExportReport:
    """Raises QueryFailed, BadOption if the directory exists by now, and BadLake."""
    target = plan.directory.absolute()
    draft = target.with_name(f".{target.name}.{uuid4().hex}")
    make_directories(target.parent)

    def write() -> int:
        shutil.rmtree(draft, ignore_errors=True)
        frame = written_frame(selected(spark, plan.selection), plan)
        if plan.files_max is not None:
            frame = frame.coalesce(plan.files_max)
        observed = Observation()
        frame = frame.observe(observed, sql.count(sql.lit(1)).alias(_COUNTED))
        writer = frame.write.format(plan.format)
        if plan.format is FileFormat.CSV:
            # Quotes are doubled, as all CSV readers but Spark expect.
            writer = writer.option("header", value=True).option("escape", '"')
        writer.save(str(draft))
        count: int = observed.get[_COUNTED]
        return count

    try:
        messages = run_query(write)
        # A rename would replace an empty directory that was created meanwhile.
        if target.exists():
            raise BadOption("to", f"{target} was created by another process meanwhile")
        put_in_place(draft, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    files = [each for each in target.iterdir() if not each.name.startswith(_NOT_DATA)]
    size = sum(each.stat().st_size for each in files)
    return ExportReport(messages, len(files), size, str(target))


def written_frame(frame: DataFrame, plan: ExportPlan) -> DataFrame:
    """With the requested columns, in types that the format supports."""
    if plan.columns:
        frame = frame.select(*plan.columns)
    if plan.format is FileFormat.PARQUET:
        return frame
    if "body" in frame.columns:
        encode = sql.base64 if plan.body is BodyForm.BASE64 else _as_text
        frame = frame.withColumn("body", encode(sql.col("body")))
    if plan.format is FileFormat.CSV and "properties" in frame.columns:
        kind = frame.schema["properties"].dataType
        if isinstance(kind, MapType):
            frame = frame.withColumn("properties", sql.to_json("properties"))
    return frame


def _as_text(body: Column) -> Column:
    """Invalid UTF-8 becomes replacement characters."""
    return sql.make_valid_utf8(body.cast("string"))
