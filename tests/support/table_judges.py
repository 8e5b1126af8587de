"""What others read in a lake that is a table: by deltalake or pyiceberg, without Roquet."""

from collections import Counter
from pathlib import Path
from typing import Protocol, final

import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from roquet.pipeline.lake.iceberg_catalog import catalog_of
from roquet.pipeline.lake.places import LakePlace, Storage, beside
from tests.support.lake_rows import Found

_CATALOG = "roquet"


def found_in(rows: pa.Table) -> Found:
    return Counter(zip(rows["queueId"].to_pylist(), rows["queueOffset"].to_pylist(), strict=True))


class TableJudge(Protocol):
    def rows(self, lake: LakePlace) -> pa.Table: ...

    def quarantined_rows(self, lake: LakePlace) -> pa.Table: ...

    def file_count(self, lake: LakePlace) -> int: ...


@final
class DeltaJudge:
    def rows(self, lake: LakePlace) -> pa.Table:
        return delta_table(lake).to_pyarrow_table()

    def quarantined_rows(self, lake: LakePlace) -> pa.Table:
        return delta_table(beside(lake, "-quarantine")).to_pyarrow_table()

    def file_count(self, lake: LakePlace) -> int:
        return len(delta_table(lake).file_uris())


@final
class IcebergJudge:
    def rows(self, lake: LakePlace) -> pa.Table:
        return iceberg_table(lake).scan().to_arrow()

    def quarantined_rows(self, lake: LakePlace) -> pa.Table:
        return iceberg_table(lake, "_quarantine").scan().to_arrow()

    def file_count(self, lake: LakePlace) -> int:
        return len(list(iceberg_table(lake).scan().plan_files()))


JUDGES: dict[str, TableJudge] = {"delta": DeltaJudge(), "iceberg": IcebergJudge()}


def delta_table(lake: LakePlace) -> DeltaTable:
    storage = Storage(lake)
    return DeltaTable(storage.url, storage_options=storage.options)


def iceberg_table(lake: LakePlace, suffix: str = "") -> Table:
    reference = catalog_of(lake)
    assert reference is not None
    options = Storage(lake).options
    properties = {"type": "rest", "uri": reference.uri}
    if reference.kind == "sqlite":
        root = lake.absolute() if isinstance(lake, Path) else Path()
        properties = {"type": "sql", "uri": f"sqlite:///{root / reference.uri}"}
    if options:
        properties |= {
            "s3.endpoint": options["AWS_ENDPOINT_URL"],
            "s3.access-key-id": options["AWS_ACCESS_KEY_ID"],
            "s3.secret-access-key": options["AWS_SECRET_ACCESS_KEY"],
            "s3.region": options["AWS_REGION"],
        }
    with load_catalog(_CATALOG, **properties) as catalog:
        return catalog.load_table((_CATALOG, f"{reference.table}{suffix}"))
