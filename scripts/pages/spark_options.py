"""Options of the formats, from their declarations; `docs/spark.md` has the tables."""

from roquet.pipeline.options.declaring import option_table
from roquet.pipeline.options.reading import ReadOptions, StoreOptions
from roquet.pipeline.options.writing import WriteOptions


def reading() -> str:
    return option_table(ReadOptions).rstrip()


def directories() -> str:
    return option_table(StoreOptions).rstrip()


def writing() -> str:
    return option_table(WriteOptions).rstrip()
