"""Finds, checks and opens a lake of any format, wherever it is.

Plain Parquet needs a directory: its readers go by the names of files, which a writer renames at
once. In an object store a lake is a table.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

import msgspec
import pyarrow as pa

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import BadLake, BadOption
from roquet.pipeline.lake.delta_table import DeltaLakeTable, check_delta, read_delta_settings
from roquet.pipeline.lake.entries import (
    Compaction,
    LakeEntry,
    LakeFile,
    LakePiece,
    QueueIncarnation,
)
from roquet.pipeline.lake.files import (
    CONTROL_DIRECTORY,
    HIDDEN_PARTITIONING,
    LATEST_PARTITIONING,
    PARTITIONING,
    column_partitioning,
    hidden_partitioning,
)
from roquet.pipeline.lake.iceberg_catalog import (
    CREATED_FIRST,
    CatalogReference,
    catalog_of,
    check_iceberg,
    new_catalog,
    store_reference,
)
from roquet.pipeline.lake.iceberg_table import (
    IcebergLakeTable,
    has_iceberg_table,
    read_iceberg_settings,
)
from roquet.pipeline.lake.lake import Lake, LakeRole, check_free, no_lake
from roquet.pipeline.lake.metadata import LakeFormat, LakeSettings, PublishLog, read_settings
from roquet.pipeline.lake.places import LakePlace, S3Location, Storage, beside, check_no_uri
from roquet.pipeline.lake.schemas.body_schema import (
    BodySchema,
    columns_in,
    read_body_schema,
)
from roquet.pipeline.lake.schemas.choosing import BodyOptions, LakeBodies, chosen_schema
from roquet.pipeline.lake.schemas.decoding import REASON_COLUMN
from roquet.pipeline.lake.schemas.evolution import RULES
from roquet.pipeline.lake.staging import (
    LATEST_SUFFIX,
    QUARANTINE_SUFFIX,
    Staging,
    lake_columns,
)
from roquet.pipeline.lake.state import LakeState, LakeTotals, Missing
from roquet.pipeline.lake.table import LakeTable, TableLake
from roquet.pipeline.planning import QueueRange
from roquet.protocol.record_columns import PropertiesForm, record_schema

_FIXED: Final = ("format", "partitioning", "properties", "tag_expression", "sql_expression")
_DELTA_LOG: Final = "_delta_log"


class OpenLake(Protocol):
    """A lake as a writer has it. `staging` is what its tasks write with."""

    @property
    def place(self) -> LakePlace: ...

    @property
    def settings(self) -> LakeSettings: ...

    @property
    def state(self) -> LakeState:
        """As it was read last; that of a table has no files."""

    @property
    def staging(self) -> Staging: ...

    def missing(
        self, ranges: Iterable[QueueRange], incarnations: Mapping[QueueRef, QueueIncarnation]
    ) -> Missing: ...

    def publish(
        self,
        pieces: Sequence[LakePiece],
        body_schema: str | None = None,
        seen: str | None = None,
    ) -> LakeEntry | None: ...

    def compact(self, compactions: Sequence[Compaction]) -> LakeEntry: ...

    def files(self) -> list[LakeFile]: ...

    def quarantined_files(self) -> list[LakeFile]: ...

    def totals(self) -> LakeTotals: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def settings_of(place: LakePlace) -> LakeSettings | None:
    """None if there is no lake. Raises BadLake."""
    if (catalog := catalog_of(place)) is not None:
        return read_iceberg_settings(place, catalog)
    if isinstance(place, Path) and (
        (place / CONTROL_DIRECTORY).exists() or not (place / _DELTA_LOG).exists()
    ):
        return read_settings(place)
    found = read_delta_settings(place)
    if found is not None and found.latest_by is not None:
        raise BadLake(f"{place} has the newest rows of a lake: give that lake")
    return found


def existing_settings(place: LakePlace) -> LakeSettings:
    """Raises BadLake, also if there is no lake."""
    found = settings_of(place)
    if found is None:
        raise no_lake(place)
    return found


def open_lake(
    place: LakePlace,
    settings: LakeSettings,
    role: LakeRole = LakeRole.WRITER,
    catalog: str | None = None,
) -> OpenLake:
    """The lake, created if it does not exist; else it keeps its settings.

    `catalog` is for a new Iceberg table. Raises BadLake and BadOption.
    """
    place = place.absolute()
    if settings.format is LakeFormat.PARQUET:
        return Lake.open(_directory(place), settings, role)
    found = settings_of(place)
    if found is None:
        _create_table(place, settings, catalog)
        found = existing_settings(place)
    return open_table(place, found)


def _create_table(place: LakePlace, settings: LakeSettings, catalog: str | None) -> None:
    if settings.format is LakeFormat.DELTA:
        _check_empty(place, {_DELTA_LOG})
        DeltaLakeTable(place, settings, lake_schema(settings)).create()
        return
    _check_empty(place, CREATED_FIRST)
    reference = new_catalog(place, catalog)
    IcebergLakeTable(place, settings, lake_schema(settings), reference).create()
    storage = Storage(place)
    with storage.errors_translated():
        store_reference(storage, reference)


def open_existing_lake(place: LakePlace, role: LakeRole = LakeRole.WRITER) -> OpenLake:
    """Raises BadLake."""
    return open_lake(place, existing_settings(place), role)


def open_table(place: LakePlace, settings: LakeSettings) -> TableLake:
    """An existing table and its quarantine, which may not exist yet."""
    with_reason = lake_schema(settings).append(pa.field(REASON_COLUMN, pa.string()))
    aside = beside(place, QUARANTINE_SUFFIX)
    quarantine: LakeTable
    if settings.format is LakeFormat.DELTA:
        quarantine = DeltaLakeTable(aside, settings, with_reason)
    else:
        catalog = _existing_catalog(place)
        quarantine = IcebergLakeTable(aside, settings, with_reason, catalog, QUARANTINE_SUFFIX)
    known = _latest_settings(place, settings.format)
    latest = None if known is None else _latest_table(place, known)
    return TableLake(place, _messages_table(place, settings), quarantine, latest)


def _messages_table(place: LakePlace, settings: LakeSettings) -> LakeTable:
    columns = lake_schema(settings)
    if settings.format is LakeFormat.DELTA:
        return DeltaLakeTable(place, settings, columns)
    return IcebergLakeTable(place, settings, columns, _existing_catalog(place))


def create_latest(lake: TableLake, key: str) -> TableLake:
    """The lake, with a table of the newest row of each key, which may exist. Raises BadLake."""
    if lake.latest is None:
        wanted = msgspec.structs.replace(
            lake.settings, latest_by=key, partitioning=LATEST_PARTITIONING
        )
        _latest_table(lake.place, wanted).create()
    check_latest_key(lake.place, key)
    return open_table(lake.place, lake.settings)


def check_latest_key(place: LakePlace, key: str) -> None:
    """Raises BadLake if the lake has the newest rows by another key."""
    settings = settings_of(place)
    found = None if settings is None else _latest_settings(place, settings.format)
    if found is not None and found.latest_by != key:
        raise BadLake(
            f"the lake {place} has the newest rows by {found.latest_by!r}, not by {key!r}: use the"
            " same, or"
            f" remove the table {beside(place, LATEST_SUFFIX)}"
        )


def _latest_settings(place: LakePlace, lake_format: LakeFormat) -> LakeSettings | None:
    aside = beside(place, LATEST_SUFFIX)
    if lake_format is LakeFormat.DELTA:
        return read_delta_settings(aside)
    if lake_format is LakeFormat.PARQUET:
        return None
    catalog = _existing_catalog(place)
    if not has_iceberg_table(aside, catalog, LATEST_SUFFIX):
        return None
    return read_iceberg_settings(aside, catalog, LATEST_SUFFIX)


def _latest_table(place: LakePlace, settings: LakeSettings) -> DeltaLakeTable | IcebergLakeTable:
    aside, columns = beside(place, LATEST_SUFFIX), lake_schema(settings)
    if settings.format is LakeFormat.DELTA:
        return DeltaLakeTable(aside, settings, columns)
    return IcebergLakeTable(aside, settings, columns, _existing_catalog(place), LATEST_SUFFIX)


def _existing_catalog(place: LakePlace) -> CatalogReference:
    """Of an Iceberg table. A file of SQLite beside the lake is found from its quarantine, too."""
    found = catalog_of(place)
    if found is None:
        raise no_lake(place)
    return found.absolute(place)


def files_of_table(place: LakePlace, *, is_quarantine: bool = False) -> list[LakeFile]:
    """What a table, or its quarantine, lists now. Raises BadLake."""
    lake = open_table(place, existing_settings(place))
    return lake.quarantined_files() if is_quarantine else lake.files()


def files_of_lake(place: LakePlace, *, is_quarantine: bool = False) -> list[LakeFile]:
    """What a lake of any format, or its quarantine, lists now. Raises BadLake."""
    if existing_settings(place).format is not LakeFormat.PARQUET:
        return files_of_table(place, is_quarantine=is_quarantine)
    state = state_of_lake(place)
    return list((state.quarantined_files if is_quarantine else state.files).values())


def state_of_lake(place: LakePlace) -> LakeState:
    """As it is now; that of a table has no files. Raises BadLake."""
    return _state(place, settings_of(place))


def _state(place: LakePlace, settings: LakeSettings | None) -> LakeState:
    if settings is None or settings.format is LakeFormat.PARQUET:
        return PublishLog(_directory(place.absolute())).refresh()
    return _messages_table(place, settings).refresh()


def check_writable(place: LakePlace, role: LakeRole) -> None:
    """Raises BadLake while another process has that role in a Parquet lake."""
    if isinstance(place, Path) and (place / CONTROL_DIRECTORY).exists():
        check_free(place, role)


def format_of(place: LakePlace, given: str | None) -> LakeFormat:
    """The requested format, else that of the lake, else Parquet. Raises BadLake and BadOption."""
    check_no_uri(place)
    if given is not None:
        chosen = LakeFormat(given)
    else:
        found = settings_of(place)
        chosen = found.format if found else LakeFormat.PARQUET
    if chosen is LakeFormat.PARQUET and isinstance(place, S3Location):
        raise BadOption(
            "format",
            f"plain Parquet needs a directory, and {place} is none: use --format delta or iceberg",
        )
    if chosen is LakeFormat.DELTA:
        check_delta()
    elif chosen is LakeFormat.ICEBERG:
        check_iceberg()
    return chosen


def partitioning_of(
    found: LakeSettings | None, lake_format: LakeFormat, given: str | None
) -> tuple[str, ...]:
    """The requested partitioning, else that of the lake, else the usual one. Raises BadOption."""
    if given is None:
        if found is not None and found.format is lake_format:
            return found.partitioning
        return HIDDEN_PARTITIONING if lake_format is LakeFormat.ICEBERG else PARTITIONING
    if lake_format is LakeFormat.ICEBERG:
        chosen = hidden_partitioning(given)
        possible = "by topic and by hours(storeTimestamp), days, months or years of it"
    elif lake_format is LakeFormat.DELTA:
        chosen = column_partitioning(given)
        possible = "by 'topic', by 'topic, dt' or by 'topic, dt, hour'; only Iceberg hides them"
    else:
        chosen = PARTITIONING if column_partitioning(given) == PARTITIONING else None
        possible = "by 'topic, dt, hour' alone: its readers know no other directories"
    if chosen is None:
        raise BadOption(
            "partition-by",
            f"{given!r}: files have messages of one topic and one hour, so that a lake of format"
            f" {lake_format} can be partitioned {possible}",
        )
    return chosen


def check_catalog(place: LakePlace, lake_format: LakeFormat, given: str | None) -> None:
    """Of an Iceberg table, new or not. Raises BadOption and BadLake."""
    if lake_format is not LakeFormat.ICEBERG:
        if given is not None:
            raise BadOption("catalog", f"only Iceberg has one, not the format {lake_format}")
        return
    found = catalog_of(place)
    if found is None:
        new_catalog(place, given)
    elif given is not None and found.absolute(place) != new_catalog(place, given):
        raise BadLake(f"the lake {place} is in the catalog {found}: use the same, or another lake")


def properties_of(found: LakeSettings | None) -> PropertiesForm:
    """The form of properties if none is requested."""
    return found.properties if found else PropertiesForm.MAP


def check_settings(place: LakePlace, found: LakeSettings | None, wanted: LakeSettings) -> None:
    """Raises BadLake for a lake with other settings: its readers rely on them in all files."""
    for name in _FIXED if found else ():
        here, there = getattr(wanted, name), getattr(found, name)
        if here != there:
            raise BadLake(
                f"the lake {place} was created with {name.replace('_', ' ')} {_shown(there)}, not"
                f" {_shown(here)}: use the same, or another lake"
            )


def body_schema_of(
    place: LakePlace, lake_format: LakeFormat, given: BodyOptions
) -> BodySchema | None:
    """How bodies are decoded: as given, else as the lake has it; None if they are not.

    Raises BadOption, BadSchema for columns that contradict those of the lake, and BadLake.
    """
    return _chosen(lake_format, given, _stored_schema(place))


def bodies_of(lake: OpenLake, given: BodyOptions) -> LakeBodies:
    """As `body_schema_of`, for a job that adds messages to a lake that it has opened."""
    return _bodies(lake.settings.format, given, lake.state.body_schema)


def bodies_again(place: LakePlace, lake_format: LakeFormat, given: BodyOptions) -> LakeBodies:
    """As `bodies_of`, after another job changed the schema while this one was running.

    Raises BadLake if both decode bodies, but not in the same way.
    """
    stored = _stored_schema(place)
    there = None if stored is None else read_body_schema(stored).framing
    if None not in (there, given.framing) and there != given.framing:
        raise BadLake(
            f"another job decodes the bodies of {place} by {there}, and this one by"
            f" {given.framing}: a lake has one way at a time"
        )
    return _bodies(lake_format, given, stored)


def _stored_schema(place: LakePlace) -> str | None:
    settings = settings_of(place)
    return None if settings is None else _state(place, settings).body_schema


def _bodies(lake_format: LakeFormat, given: BodyOptions, before: str | None) -> LakeBodies:
    return LakeBodies(_chosen(lake_format, given, before), RULES[lake_format], before)


def _chosen(lake_format: LakeFormat, given: BodyOptions, before: str | None) -> BodySchema | None:
    known = None if before is None else read_body_schema(before)
    return chosen_schema(known, given, RULES[lake_format])


def columns_of(place: LakePlace) -> pa.Schema:
    """The columns of an existing lake, with those of bodies. Raises BadLake."""
    bodies = columns_in(state_of_lake(place).body_schema)
    return pa.schema([*lake_schema(existing_settings(place)), *bodies])


def _shown(value: str | tuple[str, ...] | None) -> str:
    if value is None:
        return "none"
    return repr(", ".join(value) if isinstance(value, tuple) else str(value))


def lake_schema(settings: LakeSettings) -> pa.Schema:
    """The columns of its files, without those of bodies."""
    return record_schema(lake_columns(settings.properties), settings.properties)


def _directory(place: LakePlace) -> Path:
    assert isinstance(place, Path)
    return place


def _check_empty(place: LakePlace, allowed: Collection[str]) -> None:
    """A table in a directory of other files would let its readers miss them.

    `allowed` is what another process has that creates the same table.
    """
    if not isinstance(place, Path) or not place.is_dir():
        return
    if strange := [each.name for each in place.iterdir() if each.name not in allowed]:
        raise BadLake(
            f"{place} is neither empty nor a lake: it has {min(strange)!r}; give a directory that"
            " is empty or does not exist"
        )
