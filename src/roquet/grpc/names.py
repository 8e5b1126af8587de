"""Names of topics and groups in calls, checked as Apache checks them."""

from functools import lru_cache
from typing import Final

from roquet.grpc.codes import Code, RefusedCall
from roquet.grpc.schema import Message
from roquet.protocol.names import BUILT_IN_GROUPS, has_name_characters, is_name, is_system_topic

GROUP_SIZE_MAX: Final = 255

# Names of calls that are remembered: each call has some.
_CHECKED_COUNT_MAX: Final = 4096


def topic_name(resource: Message) -> str:
    """Raises RefusedCall. The namespace is ignored, as by Apache."""
    name = str(resource.name)
    if not _is_topic(name):
        raise RefusedCall(Code.ILLEGAL_TOPIC, f"no client may use a topic named {name[:200]!r}")
    return name


@lru_cache(_CHECKED_COUNT_MAX)
def _is_topic(name: str) -> bool:
    return is_name(name) and not is_system_topic(name)


def group_name(resource: Message) -> str:
    """Raises RefusedCall."""
    name = str(resource.name)
    if not _is_group(name):
        text = f"no client may use a group named {name[:200]!r}"
        raise RefusedCall(Code.ILLEGAL_CONSUMER_GROUP, text)
    return name


@lru_cache(_CHECKED_COUNT_MAX)
def _is_group(name: str) -> bool:
    if len(name) > GROUP_SIZE_MAX or name in BUILT_IN_GROUPS:
        return False
    return has_name_characters(name)


def missing_topic(name: str) -> RefusedCall:
    """No topic is created: SDKs check at their start that there is one."""
    text = f"topic {name!r} does not exist: create it, clients of gRPC do not"
    return RefusedCall(Code.TOPIC_NOT_FOUND, text)
