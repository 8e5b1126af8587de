"""Names of topics and groups: which are allowed, and how a namespace goes in front of them.

orders                 in namespace shop   shop%orders
%RETRY%billing         in namespace shop   %RETRY%shop%billing
"""

from functools import lru_cache
from typing import Final

from roquet.client.arguments import bad, check_text
from roquet.client.errors import BadArgument
from roquet.protocol.names import (
    DLQ_PREFIX,
    NAME_SIZE_MAX,
    RESENT_PREFIX,
    RETRY_PREFIX,
    SYSTEM_GROUP_PREFIX,
    has_name_characters,
    is_closed_topic,
    is_system_topic,
)

GROUP_SIZE_MAX: Final = 255
_NOT_IN_IDS: Final = frozenset("@/ ")
# The default of Java's producers, which no program may use there either.
_DEFAULT_GROUP: Final = "DEFAULT_PRODUCER"

# Topics of a group; the rest of their names is that of the group.
GROUP_PREFIXES: Final = (RETRY_PREFIX, DLQ_PREFIX, RESENT_PREFIX)


def check_topic(topic: str) -> None:
    """Raises BadArgument for a topic that cannot be sent to."""
    if type(topic) is not str:
        check_text("topic", topic)
    _check_topic(topic)


# Programs send to few topics, and to each of them many times.
@lru_cache(maxsize=1024)
def _check_topic(topic: str) -> None:
    _check("topic", topic, NAME_SIZE_MAX)
    if is_closed_topic(topic):
        raise BadArgument(f"topic {topic!r} is reserved for brokers; send to another one", "topic")


def check_group(group: str) -> None:
    """Raises BadArgument."""
    check_text("group", group)
    _check("group", group, GROUP_SIZE_MAX)
    if group == _DEFAULT_GROUP:
        raise BadArgument(
            f"group {group!r} is the default of Java's clients; choose another name", "group"
        )


def check_instance(name: str | None, unit: str | None) -> None:
    """Raises BadArgument for what cannot be part of a client id, which also names directories."""
    for what, value in (("instance_name", name), ("unit", unit)):
        if value is None:
            continue
        check_text(what, value)
        if not value or not value.isprintable() or not _NOT_IN_IDS.isdisjoint(value):
            raise bad(what, "a name without blanks, @ and /", value)


def is_system_name(name: str) -> bool:
    """Whether a topic or group belongs to the system."""
    return is_system_topic(name) or name.startswith(SYSTEM_GROUP_PREFIX)


def wrapped(namespace: str | None, name: str) -> str:
    """The name of a topic or group as brokers know it."""
    if not namespace or is_system_name(name):
        return name
    prefix = next((each for each in GROUP_PREFIXES if name.startswith(each)), "")
    bare = name.removeprefix(prefix)
    mark = f"{namespace}%"
    return name if bare.startswith(mark) else f"{prefix}{mark}{bare}"


def unwrapped(namespace: str | None, name: str) -> str:
    """The name of a topic or group as programs know it."""
    if not namespace:
        return name
    prefix = next((each for each in GROUP_PREFIXES if name.startswith(each)), "")
    return prefix + name.removeprefix(prefix).removeprefix(f"{namespace}%")


def _check(what: str, name: str, size_max: int) -> None:
    if not name:
        raise BadArgument(f"`{what}` is empty; give it a name", what)
    if not has_name_characters(name):
        raise BadArgument(f"{what} {name[:100]!r} may have letters, digits and %|_- only", what)
    if len(name) > size_max:
        raise BadArgument(f"{what} {name[:100]!r}... is longer than {size_max} characters", what)
