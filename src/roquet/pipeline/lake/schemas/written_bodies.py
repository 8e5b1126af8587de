"""Decodes the bodies of a lake by its schema; those of Avro and Protobuf by the writer's."""

from collections.abc import Sequence
from typing import Any, Protocol, final

import pyarrow as pa

from roquet.pipeline.errors import BadSchema
from roquet.pipeline.lake.json_columns import JsonColumns
from roquet.pipeline.lake.schemas.avro_bodies import AvroReader
from roquet.pipeline.lake.schemas.body_schema import (
    ONLY,
    AvroSchema,
    BodySchema,
    Framing,
    ProtobufSchema,
    WriterSchema,
    unframed,
)
from roquet.pipeline.lake.schemas.decoding import (
    BODY_COLUMN,
    Body,
    BodyDecoder,
    DecodedRows,
    decoded_rows,
)
from roquet.pipeline.lake.schemas.evolution import unfit_field
from roquet.pipeline.lake.schemas.protobuf_bodies import ProtobufReader


class BodyReader(Protocol):
    """Reads bodies that were written by one schema."""

    columns: pa.Schema

    def read(self, data: bytes) -> dict[str, Any]:
        """Values by column; those that are null are left out. Raises ValueError."""


def decoder_of(schema: BodySchema) -> BodyDecoder:
    """Raises BadSchema."""
    if schema.framing is Framing.JSON:
        return JsonColumns(schema.columns)
    return WrittenBodies(schema)


def reader_of(schema: WriterSchema) -> BodyReader:
    """Raises BadSchema."""
    if isinstance(schema, AvroSchema):
        return AvroReader(schema.schema, schema.references)
    if isinstance(schema, ProtobufSchema):
        return ProtobufReader(schema.descriptors, schema.message)
    raise BadSchema(schema.reason)


@final
class WrittenBodies:
    """Fields that a body lacks are null; those that the lake lacks are ignored."""

    def __init__(self, schema: BodySchema) -> None:
        self._schema = schema
        self._arrow = schema.arrow
        self._columns = [_NamedColumn(field) for field in self._arrow]
        # Those that were used so far; a text is the reason why one cannot be used.
        self._readers: dict[str, BodyReader | str] = {}

    def decode(self, rows: pa.RecordBatch) -> DecodedRows:
        unknown: set[str] = set()
        bodies = [self._read(body, unknown) for body in rows.column(BODY_COLUMN).to_pylist()]
        return decoded_rows(rows, bodies, self._columns)._replace(unknown=frozenset(unknown))

    def _read(self, body: bytes | None, unknown: set[str]) -> Body:
        schema = self._schema
        try:
            key, value = unframed(schema.framing, body or b"", schema.writers)
            reader = self._reader(key)
            if isinstance(reader, str):
                return Body(None, reader)
            if reader is None:
                return self._unknown(key, unknown)
            return Body(reader.read(value))
        except ValueError as error:
            return Body(None, str(error))

    def _unknown(self, key: str, unknown: set[str]) -> Body:
        if self._schema.framing is Framing.REGISTRY:
            unknown.add(key)
            return Body(None, f"schema {key} of the registry is not known")
        if key == ONLY:
            return Body(None, "it does not name its schema, and there are several")
        return Body(None, f"no schema has the fingerprint {key}: give the one it was written by")

    def _reader(self, key: str) -> BodyReader | str | None:
        found = self._readers.get(key)
        if found is None and (writer := self._schema.writers.get(key)) is not None:
            found = self._readers[key] = self._made(key, writer)
        return found

    def _made(self, key: str, writer: WriterSchema) -> BodyReader | str:
        try:
            made = reader_of(writer)
        except BadSchema as error:
            return str(error)
        unfit = unfit_field(self._arrow, made.columns)
        if unfit is None:
            return made
        name = f"schema {key}" if key != ONLY else "the schema"
        return (
            f"field {unfit.name!r} is {unfit.found} in {name}, and {unfit.column} in the lake,"
            " which cannot become it"
        )


@final
class _NamedColumn:
    def __init__(self, field: pa.Field) -> None:
        self.field = field

    def filled(self, bodies: Sequence[Any]) -> pa.Array:
        name = self.field.name
        return pa.array([body.get(name) for body in bodies], self.field.type)
