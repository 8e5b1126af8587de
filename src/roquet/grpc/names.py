"""Names of topics and groups in calls, checked as Apache checks them."""

from typing import Final

from roquet.grpc.codes import Code, RefusedCall
from roquet.grpc.schema import Message
from roquet.protocol.names import BUILT_IN_GROUPS, has_name_characters, is_name, is_system_topic

GROUP_SIZE_MAX: Final = 255


def topic_name(resource: Message) -> str:
    """Raises RefusedCall. The namespace is ignored, as by Apache."""
    name = str(resource.name)
    if not is_name(name) or is_system_topic(name):
        raise RefusedCall(Code.ILLEGAL_TOPIC, f"no client may use a topic named {name[:200]!r}")
    return name


def group_name(resource: Message) -> str:
    """Raises RefusedCall."""
    name = str(resource.name)
    if len(name) > GROUP_SIZE_MAX or not has_name_characters(name) or name in BUILT_IN_GROUPS:
        text = f"no client may use a group named {name[:200]!r}"
        raise RefusedCall(Code.ILLEGAL_CONSUMER_GROUP, text)
    return name


def missing_topic(name: str) -> RefusedCall:
    """No topic is created: SDKs check at their start that there is one."""
    text = f"topic {name!r} does not exist: create it, clients of gRPC do not"
    return RefusedCall(Code.TOPIC_NOT_FOUND, text)
