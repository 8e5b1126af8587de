"""What a consumer wants of its topics, as its program says it and as brokers hear it."""

from collections.abc import Mapping
from typing import Final, final

from roquet.client.arguments import bad, check_text
from roquet.client.errors import BadArgument
from roquet.client.names import check_topic, wrapped
from roquet.protocol.bodies.clients import SubscriptionData
from roquet.protocol.errors import BadExpression, TooLarge
from roquet.protocol.subscription import (
    ALL_TAGS,
    ExpressionType,
    Subscription,
    parse_subscription,
)

_UNVERSIONED: Final = 0
_EXPECTED: Final = {
    "tags": 'a text such as "a || b"',
    "sql": "a text such as \"price > 3 AND city = 'Rome'\"",
}


@final
class Subscriptions:
    """By topic, as brokers know it. All members of a group have to want the same."""

    def __init__(self, namespace: str | None) -> None:
        self._namespace = namespace
        self._by_topic: dict[str, Subscription] = {}

    @property
    def by_topic(self) -> Mapping[str, Subscription]:
        return self._by_topic

    def add(self, topic: str, tags: str | None, sql: str | None, version: int) -> Subscription:
        """Replaces what was wanted of the topic. Raises BadArgument."""
        check_text("topic", topic)
        wanted = subscription_of(wrapped(self._namespace, topic), tags, sql, version)
        self._by_topic[wanted.topic] = wanted
        return wanted

    def remove(self, topic: str) -> None:
        self._by_topic.pop(wrapped(self._namespace, topic), None)

    def renew(self, topic: str, version: int) -> None:
        """The newest version wins at the broker, so members say it anew when they change."""
        old = self._by_topic[topic]
        self._by_topic[topic] = parse_subscription(
            topic, old.expression, old.expression_type, version
        )

    def bodies(self) -> list[SubscriptionData]:
        """For a heartbeat."""
        return [subscription_data(each) for each in self._by_topic.values()]


def subscription_of(
    topic: str, tags: str | None = None, sql: str | None = None, version: int = _UNVERSIONED
) -> Subscription:
    """Of tags such as "a || b", or of an SQL92 expression, or of everything. Raises BadArgument."""
    check_topic(topic)
    for name, value in (("tags", tags), ("sql", sql)):
        if value is not None and not isinstance(value, str):
            raise bad(name, _EXPECTED[name], value)
    if tags is not None and sql is not None:
        raise BadArgument("give `tags` or `sql`, not both")
    try:
        if sql is not None:
            return parse_subscription(topic, sql, ExpressionType.SQL92, version)
        return parse_subscription(topic, tags or ALL_TAGS, ExpressionType.TAG, version)
    except (BadExpression, TooLarge) as error:
        raise BadArgument(f"subscription of {topic!r}: {error}") from None


def subscription_data(subscription: Subscription) -> SubscriptionData:
    return SubscriptionData(
        topic=subscription.topic,
        sub_string=subscription.expression,
        expression_type=subscription.expression_type,
        tags_set=list(subscription.tags),
        code_set=sorted(subscription.codes),
        sub_version=subscription.version,
    )
