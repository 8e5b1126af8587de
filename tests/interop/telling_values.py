"""Values of a body type in which every member says something: none has its default.

What comes back of such a value shows, member by member, what a peer has understood.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec

from roquet.protocol.bodies.body import Body, MessageQueue, QueueTable

B = TypeVar("B", bound=Body)

# Texts that are names of constants in Java, which reads no others. None of them is a default.
CONSTANTS = {
    "consume_from_where": "CONSUME_FROM_TIMESTAMP",
    "consume_result": "CR_LATER",
    "consume_type": "CONSUME_ACTIVELY",
    "language": "PYTHON",
    "message_model": "BROADCASTING",
    "mode": "POP",
    "topic_filter_type": "MULTI_TAG",
    "type": "EXPONENTIAL",
}


def telling_value(body_type: type[B]) -> B:
    """The same value each time."""
    value = _struct(body_type, count(1))
    assert isinstance(value, body_type)
    return value


def members(body: Body) -> dict[str, object]:
    """All that a body says, by where it says it: "TopicRoute.queue_datas/QueueData.perm".

    Lists and tables must have one item at most.
    """
    return dict(_leaves(body, ""))


def _struct(struct_type: type[Any], numbers: Iterator[int]) -> Any:
    values: dict[str, object] = {}
    for field in msgspec.structs.fields(struct_type):
        if field.type is bool:
            values[field.name] = not _default(field)
        elif field.name in CONSTANTS:
            values[field.name] = CONSTANTS[field.name]
        else:
            values[field.name] = _value(field.type, numbers)
    return struct_type(**values)


def _default(field: msgspec.structs.FieldInfo) -> object:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def _value(annotation: Any, numbers: Iterator[int]) -> Any:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _value(arguments[0], numbers)
    if origin in (UnionType, Union):
        return _value(next(a for a in arguments if a is not NoneType), numbers)
    if origin is list:
        return [_value(arguments[0], numbers)]
    if origin is dict:
        return {_value(arguments[0], numbers): _value(arguments[1], numbers)}
    if origin is QueueTable:
        (value_type,) = arguments
        return QueueTable({_value(MessageQueue, numbers): _value(value_type, numbers)})
    if issubclass(annotation, msgspec.Struct):
        return _struct(annotation, numbers)
    return _SIMPLE[annotation](next(numbers))


_SIMPLE: dict[type, Callable[[int], object]] = {
    int: lambda number: number,
    # Exact in binary, so it survives any way of writing it.
    float: lambda number: number + 0.5,
    bool: lambda _: True,
    str: lambda number: f"text {number}",
    bytes: lambda number: bytes([number]),
}


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, msgspec.Struct):
        owner = type(value).__name__
        for name in value.__struct_fields__:
            place = f"{path}/{owner}.{name}" if path else f"{owner}.{name}"
            yield from _leaves(getattr(value, name), place)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(key, f"{path}/key")
            yield from _leaves(inner, path)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, path)
    else:
        yield path, value
