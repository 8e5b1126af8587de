"""Changes to the attributes of a topic or group, as 5.x tools send them.

    +message.type=FIFO,-cleanup.policy      in a header
    {"+message.type": "FIFO", "-cleanup.policy": ""}      in a body

We keep attributes and hand them out, and obey none. What promises another kind of storage is
refused: messages would be kept and cleaned differently from what an operator believes.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from roquet.broker.errors import AttributeNotKept, BadAttributes

ATTRIBUTE_COUNT_MAX: Final = 64


class _Limit(msgspec.Struct, frozen=True):
    kept: str  # the only value that we live up to
    promise: str  # of all others


_LIMITS: Final = {
    "queue.type": _Limit("SimpleCQ", "queues of another kind"),
    "cleanup.policy": _Limit("DELETE", "that only the last message of each key is kept"),
}


def read_attribute_changes(text: str | None) -> dict[str, str]:
    """The form of a body, read from that of a header. Raises BadAttributes."""
    changes: dict[str, str] = {}
    for part in filter(None, (text or "").split(",")):
        name, equals, value = part.partition("=")
        if name[:1] != ("+" if equals else "-"):
            raise BadAttributes(f"{part[:100]!r} is neither +name=value nor -name")
        if name in changes:
            raise BadAttributes(f"{name[:100]!r} is there twice")
        changes[name] = value
    return changes


def changed_attributes(attributes: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """What `attributes` become. Raises BadAttributes."""
    changed = dict(attributes)
    for name, value in changes.items():
        sign, plain_name = name[:1], name[1:]
        if sign not in ("+", "-") or not plain_name:
            raise BadAttributes(f"{name[:100]!r} is neither +name nor -name")
        if sign == "+":
            changed[plain_name] = value
        elif changed.pop(plain_name, None) is None:
            raise BadAttributes(f"there is no {plain_name[:100]!r} to remove")
    if len(changed) > ATTRIBUTE_COUNT_MAX:
        raise BadAttributes(f"more than {ATTRIBUTE_COUNT_MAX} of them")
    return changed


def refuse_what_is_not_kept(topic: str, attributes: Mapping[str, str]) -> None:
    """Raises AttributeNotKept for attributes of a topic that we would not live up to."""
    for name, limit in _LIMITS.items():
        value = attributes.get(name, limit.kept)
        if value.lower() != limit.kept.lower():
            raise AttributeNotKept(topic, f"{name}={value}", limit.promise, f"{name}={limit.kept}")
