"""Changes to the attributes of a topic or group, as 5.x tools send them.

    +message.type=FIFO,-cleanup.policy      in a header
    {"+message.type": "FIFO", "-cleanup.policy": ""}      in a body

Attributes are stored and returned. One that asks for another kind of storage or delivery is
refused: messages would be kept, cleaned or delivered differently from what operators expect.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from roquet.broker.errors import BadAttributes, UnsupportedAttribute

ATTRIBUTE_COUNT_MAX: Final = 64


class _Limit(msgspec.Struct, frozen=True):
    supported: str  # the only value
    meaning: str  # of all others


_LIMITS: Final = {
    "queue.type": _Limit("SimpleCQ", "queues of another kind"),
    "cleanup.policy": _Limit("DELETE", "only the last message of each key is kept"),
}
_TYPE: Final = "message.type"
# By the kind of topic.
_UNSUPPORTED_TYPES: Final = {
    "priority": "urgent messages are delivered first",
    "lite": "lite topics below it",
}


def read_attribute_changes(text: str | None) -> dict[str, str]:
    """The form of a body, read from that of a header. Raises BadAttributes."""
    changes: dict[str, str] = {}
    for part in filter(None, (text or "").split(",")):
        name, equals, value = part.partition("=")
        if name[:1] != ("+" if equals else "-"):
            raise BadAttributes(f"{part[:100]!r} is neither +name=value nor -name")
        if name in changes:
            raise BadAttributes(f"{name[:100]!r} is given twice")
        changes[name] = value
    return changes


def changed_attributes(attributes: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """What `attributes` become. Raises BadAttributes."""
    changed = dict(attributes)
    for name, value in changes.items():
        sign, attribute = name[:1], name[1:]
        if sign not in ("+", "-") or not attribute:
            raise BadAttributes(f"{name[:100]!r} is neither +name nor -name")
        if sign == "+":
            changed[attribute] = value
        elif changed.pop(attribute, None) is None:
            raise BadAttributes(f"attribute {attribute[:100]!r} does not exist")
    if len(changed) > ATTRIBUTE_COUNT_MAX:
        raise BadAttributes(f"more than {ATTRIBUTE_COUNT_MAX} attributes")
    return changed


def check_supported(topic: str, attributes: Mapping[str, str]) -> None:
    """Raises UnsupportedAttribute for attributes of a topic that are not supported."""
    for name, limit in _LIMITS.items():
        value = attributes.get(name, limit.supported)
        if value.lower() != limit.supported.lower():
            remedy = f"{name}={limit.supported}"
            raise UnsupportedAttribute(topic, f"{name}={value}", limit.meaning, remedy)
    kind = attributes.get(_TYPE, "")
    meaning = _UNSUPPORTED_TYPES.get(kind.lower())
    if meaning is not None:
        raise UnsupportedAttribute(topic, f"{_TYPE}={kind}", meaning, f"{_TYPE}=NORMAL")
