"""Where tables of tests are: in a directory, or in one of several S3 stores."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from roquet.pipeline.lake.files import HIDDEN_PARTITIONING, PARTITIONING
from roquet.pipeline.lake.metadata import LakeFormat, LakeSettings
from roquet.pipeline.lake.places import LakePlace
from tests.support.s3_store import S3Store
from tests.support.versitygw import versitygw_store

# Busy, and with conditional puts that conflict, or whose answers are lost.
_FAULTS: Final = ("--busy=97", "--conflicting=7", "--losing=5")
_STORES: Final[dict[str, Callable[[Path], S3Store]]] = {
    "s3": lambda _: S3Store(),
    "faulty-s3": lambda _: S3Store(*_FAULTS),
    "versitygw": versitygw_store,
}


@contextmanager
def table_place(where: str, directory: Path) -> Iterator[LakePlace]:
    """`directory`, or the name of a store; keys of stores are in a file in the directory."""
    if where == "directory":
        yield directory / "lake"
        return
    with _STORES[where](directory) as store:
        yield store.location_with_file("lake", directory)


def new_settings(table_format: str) -> LakeSettings:
    """Of a table with small files."""
    chosen = LakeFormat(table_format)
    is_hidden = chosen is LakeFormat.ICEBERG
    return LakeSettings(
        file_rows_max=100,
        format=chosen,
        partitioning=HIDDEN_PARTITIONING if is_hidden else PARTITIONING,
    )


def catalog_for(table_format: str, place: LakePlace, directory: Path) -> str | None:
    """In an object store, an Iceberg table needs one elsewhere."""
    if table_format != LakeFormat.ICEBERG or isinstance(place, Path):
        return None
    return f"sqlite={directory / 'catalog.sqlite'}"
