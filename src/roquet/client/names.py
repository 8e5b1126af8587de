"""Names of topics and groups: which are allowed, and how a namespace goes in front of them.

orders                 in namespace shop   shop%orders
%RETRY%billing         in namespace shop   %RETRY%shop%billing
"""

import re
from functools import lru_cache
from typing import Final

from roquet.client.errors import BadArgument

TEMPLATE_TOPIC: Final = "TBW102"  # what topics made by a send inherit from
RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
TOPIC_SIZE_MAX: Final = 127
GROUP_SIZE_MAX: Final = 255

# Only brokers write to these.
_CLOSED_TOPICS: Final = frozenset(
    {
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    }
)
_SYSTEM_TOPICS: Final = _CLOSED_TOPICS | {TEMPLATE_TOPIC, "BenchmarkTest", "RMQ_SYS_TRACE_TOPIC"}
_SYSTEM_PREFIXES: Final = ("rmq_sys_", "CID_RMQ_SYS_")
# Every producer that does not care calls itself that, so nobody may.
_DEFAULT_GROUP: Final = "DEFAULT_PRODUCER"

_is_plain = re.compile(r"[%|a-zA-Z0-9_-]+").fullmatch


# Programs send to few topics, and to each of them many times.
@lru_cache(maxsize=1024)
def check_topic(topic: str) -> None:
    """Raises BadArgument for a topic that cannot be sent to."""
    _check("topic", topic, TOPIC_SIZE_MAX)
    if topic in _CLOSED_TOPICS:
        raise BadArgument(f"topic {topic!r} belongs to the brokers; send to another one")


def check_group(group: str) -> None:
    """Raises BadArgument."""
    _check("group", group, GROUP_SIZE_MAX)
    if group == _DEFAULT_GROUP:
        raise BadArgument(f"group {group!r} is taken by everybody; choose a name of your own")


def is_system_topic(topic: str) -> bool:
    return topic in _SYSTEM_TOPICS or topic.startswith(_SYSTEM_PREFIXES)


def wrapped(namespace: str | None, name: str) -> str:
    """The name of a topic or group as brokers know it."""
    if not namespace or is_system_topic(name):
        return name
    prefix = next((each for each in (RETRY_PREFIX, DLQ_PREFIX) if name.startswith(each)), "")
    bare = name.removeprefix(prefix)
    mark = f"{namespace}%"
    return name if bare.startswith(mark) else f"{prefix}{mark}{bare}"


def unwrapped(namespace: str | None, name: str) -> str:
    """The name of a topic or group as programs know it."""
    if not namespace:
        return name
    prefix = next((each for each in (RETRY_PREFIX, DLQ_PREFIX) if name.startswith(each)), "")
    return prefix + name.removeprefix(prefix).removeprefix(f"{namespace}%")


def _check(what: str, name: str, size_max: int) -> None:
    if not _is_plain(name):
        raise BadArgument(f"{what} {name[:100]!r} may have letters, digits and %|_- only")
    if len(name) > size_max:
        raise BadArgument(f"{what} {name[:100]!r}... is longer than {size_max} characters")
