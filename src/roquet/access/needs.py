"""How a route declares the rights that its request needs.

    on(RequestCode.PULL_MESSAGE, PullMessageHeader, pull_message,
       needs=reading("topic", "consumer_group"))

Names are those of header fields. What is found elsewhere, in a body or in the store, is a `Needs`
of its own, next to the handler.
"""

from collections.abc import Iterable
from typing import Any, Final

from roquet.access.accounts import ALL_TOPICS
from roquet.net.router import Need, Needs, Request
from roquet.protocol.acl import EITHER, Right
from roquet.protocol.names import retry_topic

AnyNeeds = Needs[Any, Any]

# Any account, whatever its rights.
ACCOUNT: Final[AnyNeeds] = Needs("an account", lambda _server, _request: ())


# A replica reads all messages and all progress.
EVERYTHING: Final[AnyNeeds] = Needs(
    "SUB on all topics and groups", lambda _server, _request: (Need(ALL_TOPICS, Right.SUB),)
)


def sub_topic(field: str) -> AnyNeeds:
    return _on_topic(field, Right.SUB, "SUB on the topic")


def any_topic(field: str) -> AnyNeeds:
    return _on_topic(field, EITHER, "PUB or SUB on the topic")


def sub_group(field: str) -> AnyNeeds:
    """Nothing, if an optional field is absent."""

    def of(_server: object, request: Request[Any]) -> Iterable[Need]:
        name = getattr(request.header, field)
        return () if name is None else (group_need(name),)

    return Needs("SUB on the group", of, (field,))


def reading(topic_field: str, group_field: str) -> AnyNeeds:
    """SUB on both."""
    topic, group = sub_topic(topic_field), sub_group(group_field)

    def of(server: object, request: Request[Any]) -> Iterable[Need]:
        return (*topic.of(server, request), *group.of(server, request))

    return Needs("SUB on the topic and the group", of, (topic_field, group_field))


def group_need(name: str) -> Need:
    return Need(retry_topic(name), Right.SUB)


def _on_topic(field: str, right: Right, text: str) -> AnyNeeds:
    def of(_server: object, request: Request[Any]) -> Iterable[Need]:
        return (Need(getattr(request.header, field), right),)

    return Needs(text, of, (field,))
