"""Avro by fastavro, of the extra `avro`, which no other module imports.

The body is Avro's single-object encoding, which readers in all languages know:

    C3 01 | fingerprint of the writer's schema, 8 bytes, little endian | the value

So a reader knows by which schema a value was written, and may have a newer one itself.
"""

import io
import struct
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final, Generic, TypeVar, final
from uuid import UUID

import msgspec

from roquet.client.errors import BadArgument

try:
    import fastavro
    from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form
except ImportError as error:  # pragma: no cover
    raise ImportError("AvroCodec needs fastavro: pip install 'roquet[avro]'") from error

_MARK: Final = b"\xc3\x01"
_HEAD_SIZE: Final = len(_MARK) + 8
# fastavro writes them by their logical types.
_KEPT: Final = (bytes, date, datetime, time, Decimal, UUID)
# fastavro has no error of its own for bytes that are no value of a schema.
_BROKEN: Final = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)

Schema = Mapping[str, Any]

T = TypeVar("T")


@final
class AvroCodec(Generic[T]):
    """Dataclasses, structs of msgspec and TypedDicts as records of an Avro schema.

    Values are written by `schema`. Those that were written by one of `older_schemas` are read, too,
    and get the defaults that `schema` has for new fields. Raises BadArgument.

    For example:

        schema = {
            "type": "record",
            "name": "Order",
            "fields": [{"name": "number", "type": "long"}, {"name": "what", "type": "string"}],
        }
        orders = Topic("orders", Order, codec=AvroCodec(Order, schema))
    """

    content_type: str = "avro/binary"

    def __init__(
        self, kind: type[T], schema: Schema, *, older_schemas: Iterable[Schema] = ()
    ) -> None:
        self._kind = kind
        self._schema = _parsed(schema)
        self._head = _head_of(schema)
        self._writers = {_head_of(each): _parsed(each) for each in (*older_schemas, schema)}

    def encode(self, value: T) -> bytes:
        """Raises ValueError."""
        buffer = io.BytesIO()
        buffer.write(self._head)
        try:
            record = msgspec.to_builtins(value, builtin_types=_KEPT)
            fastavro.schemaless_writer(buffer, self._schema, record)
        except _BROKEN as error:
            raise ValueError(_text_of(error)) from error
        return buffer.getvalue()

    def decode(self, body: bytes) -> T:
        """Raises ValueError."""
        head = body[:_HEAD_SIZE]
        if not head.startswith(_MARK):
            raise ValueError("it does not start with C3 01, Avro's mark of a single object")
        writer = self._writers.get(head)
        if writer is None:
            raise ValueError(
                f"no schema has the fingerprint {head[len(_MARK) :].hex()}: add the one it was "
                "written by to `older_schemas`"
            )
        buffer = io.BytesIO(body)
        buffer.seek(_HEAD_SIZE)
        try:
            record = fastavro.schemaless_reader(buffer, writer, self._schema)
            return msgspec.convert(record, self._kind)
        except _BROKEN as error:
            raise ValueError(_text_of(error)) from error
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from error


def _parsed(schema: Schema) -> Any:
    try:
        return parse_schema(dict(schema))
    except (KeyError, TypeError, ValueError, fastavro.schema.SchemaParseException) as error:
        raise BadArgument(f"no Avro schema: {_text_of(error)}", "schema") from error


def _head_of(schema: Schema) -> bytes:
    _parsed(schema)
    text = fingerprint(to_parsing_canonical_form(dict(schema)), "CRC-64-AVRO")
    return _MARK + bytes.fromhex(text)


def _text_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
