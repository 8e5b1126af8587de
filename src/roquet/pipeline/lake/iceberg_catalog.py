"""The catalog of a lake that is an Iceberg table: where the name of its newest metadata is swapped.

    DIR/roquet-catalog.json     which catalog has the table, for everyone who gets only `--lake`
    DIR/catalog.sqlite          the catalog itself, unless another was given

A table in an object store needs a catalog elsewhere: SQLite needs a file system. Keys and tokens
are not in that file: those of the store come from `Storage`, those of a REST catalog from the
configuration of the library for the catalog `roquet`, such as `PYICEBERG_CATALOG__ROQUET__TOKEN`.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, final
from urllib.parse import urlsplit

import msgspec
from pyarrow import fs

from roquet.pipeline.durable_files import make_directories, replace_file
from roquet.pipeline.errors import BadLake, BadOption
from roquet.pipeline.lake.places import STORE_ATTEMPTS_MAX, LakePlace, S3Location, Storage
from roquet.pipeline.lake.table import CommitRefused

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

CATALOG_FILE: Final = "roquet-catalog.json"
SQLITE_FILE: Final = "catalog.sqlite"
# The directory of a new table may have these, and nothing else.
CREATED_FIRST: Final = frozenset({CATALOG_FILE, SQLITE_FILE, f"{SQLITE_FILE}-journal", "metadata"})
CATALOG_NAME: Final = "roquet"
_NAMESPACE: Final = "roquet"
# Writers take turns of a few milliseconds.
SQLITE_TIMEOUT_S: Final = 60
_VERSION: Final = 1
_STORE_PROPERTIES: Final = {
    "AWS_ACCESS_KEY_ID": "s3.access-key-id",
    "AWS_SECRET_ACCESS_KEY": "s3.secret-access-key",
    "AWS_SESSION_TOKEN": "s3.session-token",
    "AWS_REGION": "s3.region",
    "AWS_ENDPOINT_URL": "s3.endpoint",
}


class CatalogKind(StrEnum):
    SQLITE = "sqlite"
    REST = "rest"


@final
class CatalogReference(msgspec.Struct, frozen=True):
    """`uri` is a URL, or the path of a file: relative to the lake, or absolute."""

    kind: CatalogKind
    uri: str
    table: str
    version: int = _VERSION

    def __str__(self) -> str:
        return f"{self.kind}={self.uri}"

    def absolute(self, place: LakePlace) -> Self:
        """As it is found from anywhere, also from beside the lake."""
        if self.kind is CatalogKind.REST or not isinstance(place, Path):
            return self
        return msgspec.structs.replace(self, uri=str(place.absolute() / self.uri))

    def identifier(self, suffix: str = "") -> tuple[str, str]:
        """Of the table, or of the one beside it whose place has this suffix."""
        return _NAMESPACE, f"{self.table}{suffix.replace('-', '_')}"


def check_iceberg() -> None:
    """Raises BadLake if a library is missing."""
    if find_spec("pyiceberg") is None or find_spec("sqlalchemy") is None:
        raise BadLake("Iceberg tables need libraries: pip install roquet[iceberg]")


def new_catalog(place: LakePlace, given: str | None) -> CatalogReference:
    """The catalog of a new lake; `given` is `rest=URL` or `sqlite=FILE`. Raises BadOption."""
    name = place.absolute().name if isinstance(place, Path) else place.key.rpartition("/")[2]
    table = re.sub(r"\W", "_", name)
    if given is None:
        if isinstance(place, S3Location):
            raise BadOption(
                "catalog",
                "an Iceberg table in an object store needs a catalog: give --catalog rest=URL, or"
                " --catalog sqlite=FILE if all jobs run on one machine",
            )
        return CatalogReference(CatalogKind.SQLITE, SQLITE_FILE, table)
    kind, _, uri = given.partition("=")
    if kind not in list(CatalogKind) or not uri:
        raise BadOption("catalog", f"{given!r}: expected rest=URL or sqlite=FILE")
    if kind == CatalogKind.SQLITE:
        return CatalogReference(CatalogKind.SQLITE, str(Path(uri).absolute()), table)
    _check_url(uri)
    return CatalogReference(CatalogKind.REST, uri, table)


def _check_url(uri: str) -> None:
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadOption("catalog", f"{uri!r}: expected http://host or https://host")
    if parts.username is not None or parts.query:
        raise BadOption(
            "catalog",
            "its URL is stored with the lake, and must have no keys: set them in the environment,"
            " PYICEBERG_CATALOG__ROQUET__TOKEN or PYICEBERG_CATALOG__ROQUET__CREDENTIAL",
        )


def catalog_of(place: LakePlace) -> CatalogReference | None:
    """None if there is no Iceberg table. Raises BadLake."""
    storage = Storage(place)
    try:
        with storage.errors_translated():
            content = storage.read(CATALOG_FILE)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        found = msgspec.json.decode(content, type=CatalogReference)
    except msgspec.DecodeError as error:
        raise BadLake(f"{storage.url}/{CATALOG_FILE} is damaged: {error}") from None
    if found.version != _VERSION:
        raise BadLake(f"{storage.url}/{CATALOG_FILE}: a newer Roquet created this lake")
    return found


def store_reference(storage: Storage, reference: CatalogReference) -> None:
    """After the table was created: a job that is killed before that creates it again, in vain."""
    content = msgspec.json.encode(reference)
    if isinstance(storage.place, Path):
        replace_file(storage.place / CATALOG_FILE, content)
        return
    with storage.filesystem.open_output_stream(storage.path(CATALOG_FILE)) as stream:
        stream.write(content)


def open_catalog(
    storage: Storage, reference: CatalogReference, *, may_create: bool = False
) -> "Catalog":
    """Closed after each use, it can be used again. Raises BadLake."""
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415

    from roquet.pipeline.lake.iceberg_library import SqliteCatalog  # noqa: PLC0415

    properties = {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}
    for name, value in storage.options.items():
        if name in _STORE_PROPERTIES:
            properties[_STORE_PROPERTIES[name]] = value
    if storage.options:
        properties["s3.retry-strategy-impl"] = f"{__name__}.StoreRetries"
    if reference.kind is CatalogKind.REST:
        try:
            return load_catalog(CATALOG_NAME, type="rest", uri=reference.uri, **properties)
        except OSError as error:
            raise BadLake(f"the catalog {reference.uri} cannot be reached: {error}") from None
    file = sqlite_file(storage, reference, may_create=may_create)
    uri = f"sqlite:///{file}?timeout={SQLITE_TIMEOUT_S}"
    return SqliteCatalog(CATALOG_NAME, uri=uri, **properties)


def sqlite_file(storage: Storage, reference: CatalogReference, *, may_create: bool = False) -> Path:
    """The library would create a missing one, which has no tables."""
    root = storage.place if isinstance(storage.place, Path) else Path()
    file = root / reference.uri
    if may_create:
        make_directories(file.parent)
    elif not file.exists():
        raise BadLake(
            f"the catalog of {storage.url} is the file {file}, which does not exist on this machine"
        )
    return file


@final
class StoreRetries(fs.AwsStandardS3RetryStrategy):  # type: ignore[misc]
    """A store that answers 503 is asked again. The library creates it by its name."""

    def __init__(self) -> None:
        super().__init__(max_attempts=STORE_ATTEMPTS_MAX)


@contextmanager
def iceberg_errors(storage: Storage) -> Iterator[None]:
    """Raises CommitRefused and BadLake."""
    from pyiceberg import exceptions  # noqa: PLC0415
    from sqlalchemy.exc import OperationalError, SQLAlchemyError  # noqa: PLC0415

    try:
        with storage.errors_translated():
            yield
    except (
        exceptions.CommitFailedException,
        exceptions.CommitStateUnknownException,
        exceptions.ValidationException,
        # Other writers kept SQLite locked for longer than its timeout.
        OperationalError,
    ) as error:
        raise CommitRefused(f"{storage.url}: {error}") from None
    except FileNotFoundError as error:
        raise BadLake(f"{storage.url} lists {error.filename or error}, which is missing") from None
    except (exceptions.RESTError, exceptions.NoSuchTableError, SQLAlchemyError) as error:
        raise BadLake(f"the catalog of {storage.url} reports: {error}") from None
