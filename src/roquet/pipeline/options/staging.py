"""Options of the stream behind `ingest`: those of reading, and where its tasks stage files."""

from dataclasses import dataclass

from roquet.pipeline.options.declaring import group, option
from roquet.pipeline.options.kinds import count, text
from roquet.pipeline.options.reading import ReadOptions


@dataclass(frozen=True, kw_only=True)
class StagingOptions:
    reading: ReadOptions = group(ReadOptions)
    lake: str = option("lake", text, "the directory of the lake")
    run: str = option("run", text, "the directory for staged files of this writer")
    grid: int = option("grid", count, "files are cut at its multiples")
    json_schema: str | None = option(
        "jsonSchema", text, "columns that bodies are decoded into", None
    )
