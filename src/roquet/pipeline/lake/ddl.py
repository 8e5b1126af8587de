"""Columns in Spark's DDL, `id bigint, at timestamp`, as Arrow types.

    columns   column {, column}
    column    name type
    type      boolean | tinyint | smallint | int | bigint | float | double | decimal(p,s) | string
              | binary | date | timestamp | array<type> | map<string,type> | struct<name:type, ...>

A name with other characters in it stands in backticks. Pure.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, final

import pyarrow as pa

from roquet.pipeline.errors import BadSchema

_TOKEN: Final = re.compile(r"\s*(?:`(?P<quoted>[^`]+)`|(?P<word>\w+)|(?P<sign>[<>(),:]))")
_SIMPLE: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_DECIMAL_DIGITS_MAX: Final = 38
_DEPTH_MAX: Final = 50


def read_ddl(text: str) -> pa.Schema:
    """Raises BadSchema, with the place."""
    reader = _Reader(text)
    fields = list(reader.fields(":", end=None))
    names = [field.name.lower() for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise BadSchema(f"duplicate column {name!r}")
    return pa.schema(fields)


def write_ddl(schema: pa.Schema) -> str:
    """The same text for equal schemas."""
    return ", ".join(f"`{field.name}` {type_name(field.type)}" for field in schema)


def type_name(kind: pa.DataType) -> str:
    """As in DDL."""
    if pa.types.is_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<string,{type_name(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'`{each.name}`:{type_name(each.type)}' for each in kind)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return next(name for name, each in _SIMPLE.items() if each == kind)


@final
class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0

    def fields(self, separator: str, end: str | None) -> Iterator[pa.Field]:
        """Up to `end`. At the top level the separator between name and type is optional."""
        while True:
            name = self._name()
            if end is not None:
                self._expect(separator)
            else:
                self._skip(separator)
            yield pa.field(name, self._type())
            if end is None and self._is_at_end():
                return
            if end is not None and self._skip(end):
                return
            self._expect(",")

    def _type(self) -> pa.DataType:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise BadSchema(f"types are nested more than {_DEPTH_MAX} deep")
        name = self._name().lower()
        nested: Mapping[str, Callable[[], pa.DataType]] = {
            "array": self._array,
            "map": self._map,
            "struct": self._struct,
            "decimal": self._decimal,
        }
        if name in nested:
            kind = nested[name]()
        elif name in _SIMPLE:
            kind = _SIMPLE[name]
        else:
            raise BadSchema(f"unknown type {name!r}; types are {', '.join([*_SIMPLE, *nested])}")
        self._depth -= 1
        return kind

    def _array(self) -> pa.DataType:
        self._expect("<")
        element = self._type()
        self._expect(">")
        return pa.list_(element)

    def _map(self) -> pa.DataType:
        self._expect("<")
        if self._type() != pa.string():
            raise self._error("the keys of a map must be strings")
        self._expect(",")
        item = self._type()
        self._expect(">")
        return pa.map_(pa.string(), item)

    def _struct(self) -> pa.DataType:
        self._expect("<")
        return pa.struct(list(self.fields(":", end=">")))

    def _decimal(self) -> pa.DataType:
        self._expect("(")
        precision, scale = self._number(), 0
        if self._skip(","):
            scale = self._number()
        self._expect(")")
        if not 0 < precision <= _DECIMAL_DIGITS_MAX or scale > precision:
            raise self._error(f"a decimal has 1 to {_DECIMAL_DIGITS_MAX} digits")
        return pa.decimal128(precision, scale)

    def _number(self) -> int:
        word = self._name()
        if not word.isdecimal():
            raise self._error(f"expected a number, not {word!r}")
        return int(word)

    def _name(self) -> str:
        found = _TOKEN.match(self._text, self._position)
        if found is None or found["sign"]:
            raise self._error("expected a name")
        self._position = found.end()
        return found["quoted"] or found["word"]

    def _skip(self, sign: str) -> bool:
        found = _TOKEN.match(self._text, self._position)
        if found is None or found["sign"] != sign:
            return False
        self._position = found.end()
        return True

    def _expect(self, sign: str) -> None:
        if not self._skip(sign):
            raise self._error(f"expected {sign!r}")

    def _is_at_end(self) -> bool:
        return not self._text[self._position :].strip()

    def _error(self, reason: str) -> BadSchema:
        rest = self._text[self._position :].strip()
        where = f"before {rest[:20]!r}" if rest else "at the end"
        return BadSchema(f"columns such as 'id bigint, name string': {where}, {reason}")
