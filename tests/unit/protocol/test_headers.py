"""Claims about all declared headers at once; single headers have tests of their own."""

import importlib
import pkgutil
from collections.abc import Iterator

import msgspec
import pytest

from roquet.protocol import headers
from roquet.protocol.errors import BadHeaderField
from roquet.protocol.fields import EMPTY_FIELDS, Header, fields_of, header_texts, read_header


def header_types() -> list[type[Header]]:
    for module in pkgutil.iter_modules(headers.__path__, f"{headers.__name__}."):
        importlib.import_module(module.name)
    return sorted(_descendants(Header), key=lambda header_type: header_type.__qualname__)


def _descendants(parent: type[Header]) -> Iterator[type[Header]]:
    for child in parent.__subclasses__():
        if child.__module__.startswith(headers.__name__):
            yield child
            yield from _descendants(child)


every_header = pytest.mark.parametrize("header_type", header_types(), ids=lambda t: t.__name__)


def filled(header_type: type[Header], *, only_required: bool) -> Header:
    values = {
        field.encode_name: _extreme_value(field.type)
        for field in msgspec.structs.fields(header_type)
        if field.required or not only_required
    }
    return msgspec.convert(values, header_type)


def _extreme_value(field_type: object) -> object:
    """The value of the type that is easiest to lose; a type that no header may have fails."""
    for kind in msgspec.inspect.type_info(field_type), *_members(field_type):
        match kind:
            case msgspec.inspect.StrType():
                return 'naïve "text"\x01中\x02'
            case msgspec.inspect.BoolType():
                return True
            case msgspec.inspect.IntType(ge=lowest) if lowest is not None:
                return lowest
    raise AssertionError(f"{field_type} is not a text, a boolean or a bounded integer")


def _members(field_type: object) -> tuple[msgspec.inspect.Type, ...]:
    match msgspec.inspect.type_info(field_type):
        case msgspec.inspect.UnionType(types=types):
            return types
    return ()


@every_header
def test_a_full_header_survives_the_wire(header_type: type[Header]) -> None:
    header = filled(header_type, only_required=False)
    assert read_header(header_type, fields_of(header)) == header


@every_header
def test_absent_fields_stay_absent(header_type: type[Header]) -> None:
    header = filled(header_type, only_required=True)
    assert read_header(header_type, fields_of(header)) == header
    assert None not in header_texts(header).values()


@every_header
def test_a_missing_mandatory_field_is_named(header_type: type[Header]) -> None:
    required = [f.encode_name for f in msgspec.structs.fields(header_type) if f.required]
    if not required:
        assert isinstance(read_header(header_type, EMPTY_FIELDS), header_type)
        return
    with pytest.raises(BadHeaderField) as refusal:
        read_header(header_type, EMPTY_FIELDS)
    assert refusal.value.field in required


@every_header
def test_wire_names_are_unique_and_not_the_python_spelling(header_type: type[Header]) -> None:
    names = header_type.__struct_encode_fields__
    assert len(set(names)) == len(names)
    assert not [name for name in names if "_" in name.strip("_") and name != name.upper()]
