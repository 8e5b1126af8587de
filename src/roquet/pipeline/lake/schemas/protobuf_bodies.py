"""Protobuf: a message type as columns, and bodies that are such messages.

By protobuf, and by protoc of grpcio-tools where the text of a `.proto` has to be compiled, both of
the extra `schemas`. Only the driver compiles: tasks get descriptors.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from subprocess import TimeoutExpired, run
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

import pyarrow as pa

from roquet.pipeline.errors import BadSchema
from roquet.pipeline.lake.schemas.kinds import (
    TIMESTAMP,
    Kind,
    column_sources,
    columns_of,
    list_kind,
    map_kind,
)
from roquet.temporary import temporary_directory

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.message import Message

_PROTOC_TIMEOUT_S: Final = 60
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# By the C++ type of a field.
_NUMBERS: Final[Mapping[int, pa.DataType]] = {
    1: pa.int32(),
    2: pa.int64(),
    3: pa.int64(),  # uint32
    4: pa.decimal128(20, 0),  # uint64
    5: pa.float64(),
    6: pa.float32(),
    7: pa.bool_(),
}
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_TIMESTAMP: Final = "google.protobuf.Timestamp"
# They contain themselves: they are JSON.
_AS_JSON: Final = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue"))


def check_protobuf() -> None:
    """Raises BadSchema if the library is missing."""
    if find_spec("google.protobuf") is None:
        raise BadSchema("Protobuf needs a library: pip install roquet[schemas]")


def compiled(files: Mapping[str, str], main: str, imports: Path | None = None) -> bytes:
    """Descriptors of the `.proto` texts, by name; those of `main` are last.

    What they import is among them, or below the directory `imports`. Raises BadSchema.
    """
    if find_spec("grpc_tools") is None:
        raise BadSchema(
            "a .proto has to be compiled: pip install roquet[schemas], or give the file that"
            " 'protoc --include_imports --descriptor_set_out' writes"
        )
    with temporary_directory() as root:
        for name, text in files.items():
            target = (root / name).resolve()
            if not target.is_relative_to(root.resolve()):
                raise BadSchema(f"{name!r} is no name of a .proto")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        output = root / "descriptors.bin"
        # In a process of its own: protoc keeps what it has read, and prints to the terminal.
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{root}"]
        command += [f"-I{imports}"] if imports else []
        command += ["--include_imports", f"--descriptor_set_out={output}", main]
        try:
            done = run(  # noqa: S603
                command, capture_output=True, text=True, timeout=_PROTOC_TIMEOUT_S, check=False
            )
        except TimeoutExpired:
            raise BadSchema(f"{main} was not compiled within {_PROTOC_TIMEOUT_S} s") from None
        if done.returncode:
            # Warnings of its libraries come first.
            lines = [line for line in done.stderr.splitlines() if ".proto:" in line]
            found = " - ".join(lines).replace(f"{root}/", "") or done.stderr.strip()
            raise BadSchema(f"{main} cannot be compiled: {found}")
        return output.read_bytes()


def message_names(descriptors: bytes) -> list[str]:
    """The messages of the last file, as the indexes of a registry count them: first, its first one.

    Raises BadSchema.
    """
    last = _descriptor_set(descriptors).file[-1]
    return [_full_name(last.package, each.name) for each in last.message_type]


def message_at(descriptors: bytes, indexes: Sequence[int]) -> str:
    """The name of a message, by its index in the last file, then by those within messages.

    Raises BadSchema.
    """
    last = _descriptor_set(descriptors).file[-1]
    name, inner = last.package, last.message_type
    for index in indexes:
        if not 0 <= index < len(inner):
            raise BadSchema(f"{last.name} has no message with the indexes {list(indexes)}")
        name = _full_name(name, inner[index].name)
        inner = inner[index].nested_type
    return name


def _full_name(package: str, name: str) -> str:
    return f"{package}.{name}" if package else name


def _descriptor_set(descriptors: bytes) -> "FileDescriptorSet":
    check_protobuf()
    from google.protobuf.descriptor_pb2 import FileDescriptorSet  # noqa: PLC0415
    from google.protobuf.message import DecodeError  # noqa: PLC0415

    try:
        found = FileDescriptorSet.FromString(descriptors)
    except DecodeError as error:
        raise BadSchema(f"not a set of Protobuf descriptors: {error}") from None
    if not found.file:
        raise BadSchema("not a set of Protobuf descriptors: it has no file")
    return found


@final
class ProtobufReader:
    """Reads bodies that are messages of one type."""

    def __init__(self, descriptors: bytes, message: str) -> None:
        """Raises BadSchema."""
        from google.protobuf.message_factory import GetMessageClass  # noqa: PLC0415

        descriptor = _found(_descriptor_set(descriptors), message)
        self._parse: Callable[[bytes], Message] = GetMessageClass(descriptor).FromString
        self._members = _members(descriptor, frozenset())
        self._sources = column_sources({each.name: each.kind for each in self._members})
        self.columns = columns_of(self._sources)

    def read(self, data: bytes) -> dict[str, Any]:
        """Values by column. Raises ValueError."""
        from google.protobuf.message import DecodeError  # noqa: PLC0415

        try:
            values = _values(self._members, self._parse(data))
        except DecodeError as error:
            raise ValueError(str(error)) from None
        except OverflowError as error:
            raise ValueError(f"a time cannot be stored: {error}") from None
        return {each.column: values[each.field] for each in self._sources if each.field in values}


def _found(descriptors: "FileDescriptorSet", message: str) -> "Descriptor":
    from google.protobuf.descriptor_pool import DescriptorPool  # noqa: PLC0415

    pool = DescriptorPool()
    try:
        for file in descriptors.file:
            pool.Add(file)
        return pool.FindMessageTypeByName(message)
    except KeyError:
        names = sorted(
            _full_name(file.package, each.name)
            for file in descriptors.file
            for each in file.message_type
            if file.package != "google.protobuf"
        )
        raise BadSchema(
            f"the Protobuf schema has no message {message!r}; it has {', '.join(names)}"
        ) from None
    except TypeError as error:
        raise BadSchema(f"the Protobuf descriptors are not complete: {error}") from None


class _Member(NamedTuple):
    """A field of a message. One that knows whether it is there is null if it is not."""

    name: str
    kind: Kind
    has_presence: bool


def _values(members: Sequence[_Member], message: "Message") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, kind, has_presence in members:
        if not has_presence or message.HasField(name):
            value = getattr(message, name)
            found[name] = value if kind.convert is None else kind.convert(value)
    return found


def _members(descriptor: "Descriptor", open_names: frozenset[str]) -> list[_Member]:
    inside = open_names | {descriptor.full_name}
    return [
        _Member(field.name, _kind(field, inside), field.has_presence) for field in descriptor.fields
    ]


def _kind(field: "FieldDescriptor", open_names: frozenset[str]) -> Kind:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        return map_kind(_single_kind(inner.fields_by_name["value"], open_names))
    kind = _single_kind(field, open_names)
    if not field.is_repeated:
        return kind
    listed = list_kind(kind)
    return listed if listed.convert is not None else Kind(listed.type, list)


def _single_kind(field: "FieldDescriptor", open_names: frozenset[str]) -> Kind:
    if field.message_type is not None:
        return _message_kind(field.message_type, open_names)
    if field.enum_type is not None:
        names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
        return Kind(pa.string(), lambda number: names.get(number, str(number)))
    if field.cpp_type == field.CPPTYPE_STRING:
        return Kind(pa.binary() if field.type == field.TYPE_BYTES else pa.string())
    return Kind(_NUMBERS[field.cpp_type])


def _message_kind(descriptor: "Descriptor", open_names: frozenset[str]) -> Kind:
    name = descriptor.full_name
    if name == _TIMESTAMP:
        return Kind(TIMESTAMP, _moment)
    if name in _WRAPPERS:
        inner = _single_kind(descriptor.fields_by_name["value"], open_names)
        return Kind(inner.type, attrgetter("value"))
    if name in _AS_JSON or name in open_names:
        return Kind(pa.string(), _json_of)
    members = _members(descriptor, open_names)
    fields = [pa.field(each.name, each.kind.type) for each in members]
    # Arrow and Parquet have no struct without fields.
    return (
        Kind(pa.struct(fields), partial(_values, members))
        if fields
        else Kind(pa.bool_(), _is_there)
    )


def _is_there(message: "Message") -> bool:  # noqa: ARG001
    return True


def _moment(value: Any) -> datetime:
    return _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)


def _json_of(message: "Message") -> str:
    from google.protobuf.json_format import MessageToJson  # noqa: PLC0415

    return MessageToJson(message, indent=None, preserving_proto_field_name=True)
