"""Which catalog a lake is in: by the option, and by what is stored with it."""

import gc
from pathlib import Path

import msgspec
import pytest
from sqlalchemy.exc import SQLAlchemyError

from roquet.pipeline.errors import BadLake, BadOption
from roquet.pipeline.lake.files import HIDDEN_PARTITIONING
from roquet.pipeline.lake.iceberg_catalog import (
    CATALOG_FILE,
    CatalogKind,
    catalog_of,
    new_catalog,
    open_catalog,
)
from roquet.pipeline.lake.metadata import LakeFormat, LakeSettings
from roquet.pipeline.lake.opening import (
    check_catalog,
    open_existing_lake,
    open_lake,
    partitioning_of,
)
from roquet.pipeline.lake.places import S3Location, Storage
from tests.support.descriptors import open_count
from tests.support.lake_rows import message_batch, staged_rows
from tests.support.ports import free_port
from tests.support.raising import raises
from tests.support.s3_store import BUCKET, S3Store

SETTINGS = LakeSettings(format=LakeFormat.ICEBERG, partitioning=HIDDEN_PARTITIONING)
IN_S3 = S3Location("bucket", "some/lake")


def test_a_directory_has_its_catalog_in_itself(tmp_path: Path) -> None:
    found = new_catalog(tmp_path / "my-lake", None)
    assert found.kind is CatalogKind.SQLITE
    assert found.identifier() == ("roquet", "my_lake")
    assert found.identifier("-quarantine") == ("roquet", "my_lake_quarantine")


def test_an_object_store_needs_a_catalog_elsewhere() -> None:
    with raises(BadOption, name="catalog"):
        new_catalog(IN_S3, None)
    found = new_catalog(IN_S3, "rest=https://host:8181/catalog")
    assert (found.kind, found.uri) == (CatalogKind.REST, "https://host:8181/catalog")


@pytest.mark.parametrize(
    "given",
    [
        "hive=thrift://host",
        "rest",
        "rest=",
        "rest=host:8181",
        "rest=https://key:secret@host",
        "rest=https://host?token=secret",
    ],
)
def test_what_is_no_catalog_or_would_store_a_key_is_refused(given: str) -> None:
    with raises(BadOption, name="catalog"):
        new_catalog(IN_S3, given)


def test_a_lake_stays_in_its_catalog(tmp_path: Path) -> None:
    given = f"sqlite={tmp_path / 'shared.sqlite'}"
    lake = open_lake(tmp_path / "lake", SETTINGS, catalog=given)
    check_catalog(lake.place, LakeFormat.ICEBERG, None)
    check_catalog(lake.place, LakeFormat.ICEBERG, given)
    with pytest.raises(BadLake, match="in the catalog"):
        check_catalog(lake.place, LakeFormat.ICEBERG, "rest=https://host")


def test_only_iceberg_has_a_catalog(tmp_path: Path) -> None:
    with raises(BadOption, name="catalog"):
        check_catalog(tmp_path / "lake", LakeFormat.DELTA, "rest=https://host")


def test_a_catalog_that_does_not_answer_is_named(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    reference = new_catalog(place, f"rest=http://127.0.0.1:{free_port()}")
    with pytest.raises(BadLake, match="cannot be reached"):
        open_catalog(Storage(place), reference)


def test_a_file_that_is_no_catalog_is_not_left_open(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    file = tmp_path / "catalog.sqlite"
    file.write_bytes(b"no database, but long enough to be taken for one" * 100)
    gc.disable()
    try:
        with pytest.raises(SQLAlchemyError):
            open_catalog(Storage(place), new_catalog(place, f"sqlite={file}"))
        assert open_count(str(file)) == 0
    finally:
        gc.enable()


def test_a_namespace_that_another_process_created_meanwhile_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "lake"
    reference = new_catalog(place, f"sqlite={tmp_path / 'catalog.sqlite'}")
    with open_catalog(Storage(place), reference, may_create=True) as catalog:
        catalog.create_namespace_if_not_exists("messages")
        # As it was a moment before.
        monkeypatch.setattr(type(catalog), "namespace_exists", lambda *_: False)
        catalog.create_namespace_if_not_exists("messages")


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'{"kind":"rest","uri":"x","table":"y","version":2}']
)
def test_a_damaged_or_newer_reference_is_reported(tmp_path: Path, content: bytes) -> None:
    (tmp_path / CATALOG_FILE).write_bytes(content)
    with pytest.raises(BadLake, match=CATALOG_FILE):
        catalog_of(tmp_path)


def test_keys_are_in_no_file_of_a_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with S3Store() as store:
        for name, value in (store.environment | {"AWS_SECRET_ACCESS_KEY": "s3cr3t"}).items():
            monkeypatch.setenv(name, value)
        file = tmp_path / "catalog.sqlite"
        lake = open_lake(store.location("lake"), SETTINGS, catalog=f"sqlite={file}")
        lake.publish(staged_rows(lake, message_batch(0, range(3))))
        assert open_existing_lake(lake.place).totals().messages == 3
        keys = store.keys("lake/")
        storage = Storage(lake.place)
        contents = [storage.read(key.removeprefix(f"{BUCKET}/lake/")) for key in keys]
    assert any(key.endswith(".metadata.json") for key in keys)
    assert not any(b"s3cr3t" in each for each in (*contents, file.read_bytes()))


@pytest.mark.parametrize(
    ("lake_format", "given"),
    [
        (LakeFormat.ICEBERG, "bucket(16, keys)"),
        (LakeFormat.ICEBERG, "tags"),
        (LakeFormat.ICEBERG, "hours(bornTimestamp)"),
        (LakeFormat.ICEBERG, "hours(storeTimestamp), days(storeTimestamp)"),
        (LakeFormat.ICEBERG, ""),
        (LakeFormat.DELTA, "hours(storeTimestamp)"),
        (LakeFormat.PARQUET, "topic"),
    ],
)
def test_partitions_that_files_are_not_divided_by_are_refused(
    lake_format: LakeFormat, given: str
) -> None:
    with raises(BadOption, name="partition-by"):
        partitioning_of(None, lake_format, given)


def test_the_partitions_of_a_lake_are_kept(tmp_path: Path) -> None:
    days = ("topic", "days(storeTimestamp)")
    settings = msgspec.structs.replace(SETTINGS, partitioning=days)
    lake = open_lake(tmp_path / "lake", settings)
    assert partitioning_of(lake.settings, LakeFormat.ICEBERG, None) == days
    assert partitioning_of(None, LakeFormat.ICEBERG, None) == HIDDEN_PARTITIONING
    assert partitioning_of(None, LakeFormat.DELTA, "topic,dt, hour")[1] == "dt"
