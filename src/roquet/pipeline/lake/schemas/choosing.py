"""Which schema the bodies of a lake get, by the arguments of a command and by what it has."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import pyarrow as pa

from roquet.pipeline.errors import BadOption, BadSchema, SchemaUnknown
from roquet.pipeline.lake.entries import LakePiece
from roquet.pipeline.lake.json_columns import JsonColumns
from roquet.pipeline.lake.schemas.avro_bodies import fingerprint_of
from roquet.pipeline.lake.schemas.body_schema import (
    ONLY,
    AvroSchema,
    BodySchema,
    Framing,
    ProtobufSchema,
    UnusableSchema,
    WriterSchema,
)
from roquet.pipeline.lake.schemas.evolution import EvolutionRules, check_evolution, evolved
from roquet.pipeline.lake.schemas.protobuf_bodies import compiled, message_names
from roquet.pipeline.lake.schemas.registry import SchemaRegistry, check_registry_url
from roquet.pipeline.lake.schemas.written_bodies import reader_of

log = logging.getLogger(__name__)

_PROTO_SUFFIX: Final = ".proto"


@dataclass(frozen=True, kw_only=True)
class BodyOptions:
    """At most one way in which bodies are decoded; without any, as the lake has it.

    `json_schema` has columns, or is a file that has them. `avro_schemas` are files, of which bodies
    name one by its fingerprint if there are several. `protobuf_schema` is a `.proto` or a file of
    descriptors. `registry` is a URL. With `infer`, a job looks at bodies before it starts, and adds
    the columns of JSON that it finds to those of the lake.
    """

    json_schema: str | None = None
    avro_schemas: tuple[Path, ...] = ()
    protobuf_schema: Path | None = None
    protobuf_message: str | None = None
    registry: str | None = None
    infer: bool = False

    @property
    def framing(self) -> Framing | None:
        """How bodies name their schema; None without an option, as the lake decides."""
        if self.json_schema is not None or self.infer:
            return Framing.JSON
        if self.avro_schemas:
            return Framing.AVRO
        if self.protobuf_schema is not None:
            return Framing.PROTOBUF
        return Framing.REGISTRY if self.registry is not None else None

    def check(self) -> None:
        """Raises BadOption."""
        given = [
            name
            for name, value in (
                ("json-schema", self.json_schema),
                ("avro-schema", self.avro_schemas),
                ("protobuf-schema", self.protobuf_schema),
                ("registry", self.registry),
                ("infer", self.infer),
            )
            if value
        ]
        if len(given) > 1:
            raise BadOption(given[1], f"it contradicts {given[0]!r}: give one of them")
        if self.protobuf_message is not None and self.protobuf_schema is None:
            raise BadOption("protobuf-message", "requires --protobuf-schema")


AS_BEFORE: Final = BodyOptions()


def chosen_schema(
    before: BodySchema | None, given: BodyOptions, rules: EvolutionRules
) -> BodySchema | None:
    """`given`, as far as a lake that has `before` can become it; else `before`.

    Raises BadOption, BadSchema for columns that contradict those of the lake, and RegistryFailed.
    """
    given.check()
    if given.infer and before is not None and before.framing is not Framing.JSON:
        raise BadOption(
            "infer", f"the lake decodes its bodies by {before.framing}, whose schemas have columns"
        )
    if given.json_schema is not None:
        columns = _json_columns(given.json_schema)
        check_evolution(before.arrow if before else pa.schema([]), columns, rules)
        return BodySchema("").with_columns(columns)
    if given.avro_schemas:
        return _with_writers(before, Framing.AVRO, _avro_writers(given.avro_schemas), rules)
    if given.protobuf_schema is not None:
        writer = _protobuf_writer(given.protobuf_schema, given.protobuf_message)
        return _with_writers(before, Framing.PROTOBUF, {ONLY: writer}, rules)
    if given.registry is not None:
        return _of_registry(before, given.registry)
    if before is not None and before.registry is not None:
        return _of_registry(before, before.registry)
    return before


@final
class LakeBodies:
    """How a job decodes bodies: its driver learns schemas as messages name them."""

    def __init__(
        self, schema: BodySchema | None, rules: EvolutionRules, seen: str | None = None
    ) -> None:
        """`seen` is what the lake had when the schema was chosen."""
        self.schema = schema
        self._rules = rules
        self.seen = seen
        self._learned: dict[str, WriterSchema] = {}

    @property
    def text(self) -> str | None:
        """For tasks, and to be stored with the lake; None if bodies are not decoded."""
        return None if self.schema is None else self.schema.text

    def note_stored(self) -> None:
        """The lake has the schema now: what is learned later follows it."""
        self.seen = self.text

    def adopt(self, chosen: "LakeBodies") -> None:
        """Go on with what was chosen by the schema that the lake has now, and what was learned."""
        self.schema = chosen.schema
        self.seen = chosen.seen
        self._add(self._learned)

    @property
    def framing(self) -> Framing | None:
        return None if self.schema is None else self.schema.framing

    def check_known(self, pieces: Iterable[LakePiece]) -> None:
        """Raises SchemaUnknown."""
        check_known(key for piece in pieces for key in piece.unknown_schemas)

    def learn(self, keys: Iterable[str]) -> None:
        """Ask the registry, and evolve the columns. Raises RegistryFailed."""
        schema = self.schema
        assert schema is not None
        assert schema.registry is not None
        registry = SchemaRegistry(schema.registry)
        for key in sorted(set(keys) - schema.writers.keys()):
            writer = self._learned[key] = registry.writer(key)
            log.info("schema %s of %s: %s", key, schema.registry, type(writer).__name__)
        self._add(self._learned)

    def _add(self, writers: Mapping[str, WriterSchema]) -> None:
        """Those that the schema lacks, and their columns."""
        for key, writer in writers.items():
            if self.schema is not None and key not in self.schema.writers:
                schema = self.schema.with_writers({key: writer})
                self.schema = _with_columns_of(schema, writer, self._rules)


def check_known(keys: Iterable[str]) -> None:
    """Of schemas that tasks lacked. Raises SchemaUnknown."""
    if lacking := sorted(set(keys)):
        raise SchemaUnknown(lacking)


def _with_writers(
    before: BodySchema | None,
    framing: Framing,
    writers: dict[str, WriterSchema],
    rules: EvolutionRules,
) -> BodySchema:
    schema = BodySchema(before.columns if before else "", framing, writers)
    for writer in writers.values():
        schema = _with_columns_of(schema, writer, rules)
    return schema


def _with_columns_of(schema: BodySchema, writer: WriterSchema, rules: EvolutionRules) -> BodySchema:
    """A schema that cannot be used adds none; its bodies are quarantined with the reason."""
    if isinstance(writer, UnusableSchema):
        return schema
    return schema.with_columns(evolved(schema.arrow, reader_of(writer).columns, rules))


def _of_registry(before: BodySchema | None, url: str) -> BodySchema:
    check_registry_url(url)
    if before is None or before.framing is not Framing.REGISTRY:
        SchemaRegistry(url).check()
        return BodySchema(before.columns if before else "", Framing.REGISTRY, registry=url)
    # Without what it did not have: it may have it by now.
    known: dict[str, WriterSchema] = {
        key: each for key, each in before.writers.items() if not isinstance(each, UnusableSchema)
    }
    return BodySchema(before.columns, Framing.REGISTRY, known, url)


def _json_columns(given: str) -> pa.Schema:
    """Of a file that has the columns, or of the columns themselves, which are words."""
    file = Path(given)
    is_file = " " not in given and (file.is_file() or file.suffix or "/" in given)
    with _named("json-schema", file if is_file else None):
        return JsonColumns(_read(file).decode() if is_file else given).schema


def _avro_writers(paths: tuple[Path, ...]) -> dict[str, WriterSchema]:
    writers: dict[str, WriterSchema] = {}
    for path in paths:
        with _named("avro-schema", path):
            schema = AvroSchema(_read(path).decode())
            writers[fingerprint_of(schema.schema)] = schema
            reader_of(schema)
    if len(writers) == 1:
        writers[ONLY] = schema
    return writers


def _protobuf_writer(path: Path, message: str | None) -> ProtobufSchema:
    with _named("protobuf-schema", path):
        content = _read(path)
        if path.suffix == _PROTO_SUFFIX:
            content = compiled({path.name: content.decode()}, path.name, path.absolute().parent)
        names = message_names(content)
    if message is None and len(names) != 1:
        raise BadOption("protobuf-message", f"{path} has several: give one of {', '.join(names)}")
    with _named("protobuf-schema" if message is None else "protobuf-message", path):
        chosen = ProtobufSchema(content, message or names[0])
        reader_of(chosen)
    return chosen


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadSchema(str(error.strerror)) from None


@contextmanager
def _named(option: str, file: Path | None) -> Iterator[None]:
    """Raises BadOption."""
    try:
        yield
    except (BadSchema, UnicodeDecodeError) as error:
        raise BadOption(option, f"{file}: {error}" if file else str(error)) from None
