"""How the bodies of a lake are decoded: the columns, and the schemas that writers used. Pure.

As text it is stored with the lake and sent to tasks: the columns alone, in DDL, if bodies are JSON,
else a JSON object.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple, final

import msgspec
import pyarrow as pa

from roquet.pipeline.errors import BadSchema
from roquet.pipeline.lake.ddl import read_ddl, write_ddl
from roquet.pipeline.lake.schemas.avro_bodies import SINGLE_OBJECT, SINGLE_OBJECT_SIZE

# The only schema of bodies that do not name theirs.
ONLY: Final = ""
_REGISTRY_HEAD_SIZE: Final = 5
_INDEX_BYTES_MAX: Final = 5
_INDEXES_MAX: Final = 32


class Framing(StrEnum):
    """What stands before the value in a body, and names its schema."""

    JSON = "json"
    # The value alone, or Avro's single-object encoding: C3 01, the fingerprint of its schema.
    AVRO = "avro"
    # The message alone.
    PROTOBUF = "protobuf"
    # As Confluent's serializers write: 0, the id of the schema in 4 bytes; then, of Protobuf, which
    # of its messages.
    REGISTRY = "registry"


class AvroSchema(msgspec.Struct, frozen=True, tag="avro", omit_defaults=True):
    schema: str
    references: list[str] = []


class ProtobufSchema(msgspec.Struct, frozen=True, tag="protobuf"):
    """`message` is a full name."""

    descriptors: bytes
    message: str


class UnusableSchema(msgspec.Struct, frozen=True, tag="unusable"):
    """Bodies that name it are quarantined, with this reason."""

    reason: str


WriterSchema = AvroSchema | ProtobufSchema | UnusableSchema


@final
class BodySchema(msgspec.Struct, frozen=True, omit_defaults=True):
    """`columns` are those of the lake, in DDL; `writers` are schemas by what bodies call them."""

    columns: str
    framing: Framing = Framing.JSON
    writers: dict[str, WriterSchema] = {}
    registry: str | None = None

    @property
    def arrow(self) -> pa.Schema:
        return read_ddl(self.columns) if self.columns else pa.schema([])

    @property
    def text(self) -> str:
        if self.framing is Framing.JSON:
            return self.columns
        return msgspec.json.encode(self).decode()

    def with_columns(self, columns: pa.Schema) -> "BodySchema":
        return msgspec.structs.replace(self, columns=write_ddl(columns))

    def with_writers(self, writers: Mapping[str, WriterSchema]) -> "BodySchema":
        return msgspec.structs.replace(self, writers={**self.writers, **writers})


def read_body_schema(text: str) -> BodySchema:
    """Raises BadSchema."""
    if not text.startswith("{"):
        return BodySchema(text)
    try:
        return msgspec.json.decode(text, type=BodySchema)
    except msgspec.DecodeError as error:
        raise BadSchema(f"the schema of bodies is damaged: {error}") from None


def columns_in(text: str | None) -> pa.Schema:
    """The columns of a stored schema. Raises BadSchema."""
    return pa.schema([]) if text is None else read_body_schema(text).arrow


def new_columns(before: pa.Schema, after: pa.Schema) -> list[pa.Field]:
    """Those that are new or have another type."""
    return [
        field
        for field in after
        if before.get_field_index(field.name) < 0 or before.field(field.name).type != field.type
    ]


class FramedBody(NamedTuple):
    """What a body calls its schema, and the value without the head."""

    key: str
    value: bytes


def unframed(framing: Framing, body: bytes, writers: Mapping[str, WriterSchema]) -> FramedBody:
    """Raises ValueError."""
    if framing is Framing.REGISTRY:
        return _of_registry(body, writers)
    if framing is Framing.AVRO and body.startswith(SINGLE_OBJECT):
        head = body[len(SINGLE_OBJECT) : SINGLE_OBJECT_SIZE]
        return FramedBody(head.hex(), body[SINGLE_OBJECT_SIZE:])
    return FramedBody(ONLY, body)


def _of_registry(body: bytes, writers: Mapping[str, WriterSchema]) -> FramedBody:
    if len(body) < _REGISTRY_HEAD_SIZE or body[0]:
        raise ValueError("it does not start with 0 and the id of a schema in a registry")
    key = str(int.from_bytes(body[1:_REGISTRY_HEAD_SIZE], "big"))
    if not isinstance(writers.get(key), ProtobufSchema):
        return FramedBody(key, body[_REGISTRY_HEAD_SIZE:])
    indexes, position = _read_indexes(body, _REGISTRY_HEAD_SIZE)
    return FramedBody(writer_key(key, indexes), body[position:])


def writer_key(schema_id: str, indexes: list[int]) -> str:
    """Of a message of a Protobuf schema; the first one of the file is that of the id alone."""
    return schema_id if indexes == [0] else f"{schema_id}/{'.'.join(map(str, indexes))}"


def indexes_in(key: str) -> tuple[str, list[int]]:
    """The id and the indexes of `writer_key`."""
    schema_id, _, indexes = key.partition("/")
    return schema_id, [int(each) for each in indexes.split(".")] if indexes else [0]


def _read_indexes(body: bytes, position: int) -> tuple[list[int], int]:
    count, position = _read_number(body, position)
    if not 0 <= count <= _INDEXES_MAX:
        raise ValueError(f"its message has {count} indexes, more than {_INDEXES_MAX}")
    found: list[int] = []
    for _ in range(count):
        index, position = _read_number(body, position)
        found.append(index)
    # No index at all stands for the first message.
    return found or [0], position


def _read_number(body: bytes, position: int) -> tuple[int, int]:
    """A zigzag number of variable size."""
    value = 0
    for shift in range(_INDEX_BYTES_MAX):
        if position >= len(body):
            raise ValueError("it ends within the indexes of its message")
        byte = body[position]
        position += 1
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
    raise ValueError("an index of its message is too large")
