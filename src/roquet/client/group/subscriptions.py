"""Which messages of its topics a consumer wants: tags or SQL92, as programs and brokers write.

A member registers itself and its subscriptions at brokers, by heartbeats.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final, final

from roquet.client.arguments import bad, check_text
from roquet.client.cluster.brokers import Brokers
from roquet.client.cluster.instance import ClientInstance
from roquet.client.cluster.routes import RouteBook
from roquet.client.errors import BadArgument, ClientError, NoNameServer, TopicNotFound, Unreachable
from roquet.client.group.config import MemberConfig
from roquet.client.group.start_offset import StartFrom
from roquet.client.names import check_topic, wrapped
from roquet.clock import Clock
from roquet.protocol.bodies.body import write_body
from roquet.protocol.bodies.clients import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    Heartbeat,
    MessageModel,
    SubscriptionCheck,
    SubscriptionData,
)
from roquet.protocol.codes import RequestCode
from roquet.protocol.errors import BadExpression, TooLarge
from roquet.protocol.fields import NoFields
from roquet.protocol.subscription import (
    ALL_TAGS,
    ExpressionType,
    Subscription,
    parse_subscription,
)

log = logging.getLogger(__name__)

_UNVERSIONED: Final = 0
_EXPECTED: Final = {
    "tags": 'a text such as "a || b"',
    "sql": "a text such as \"price > 3 AND city = 'Rome'\"",
}


@final
class Subscriptions:
    """By topic, as brokers know it. All members of a group must have the same subscriptions."""

    def __init__(self, namespace: str | None) -> None:
        self._namespace = namespace
        self._by_topic: dict[str, Subscription] = {}

    @property
    def by_topic(self) -> Mapping[str, Subscription]:
        return self._by_topic

    def add(
        self, topic: str, tags: str | Iterable[str] | None, sql: str | None, version: int
    ) -> Subscription:
        """Replaces the subscription of the topic. Raises BadArgument."""
        check_text("topic", topic)
        wanted = subscription_of(wrapped(self._namespace, topic), tags, sql, version)
        self._by_topic[wanted.topic] = wanted
        return wanted

    def remove(self, topic: str) -> None:
        self._by_topic.pop(wrapped(self._namespace, topic), None)

    def renew(self, topic: str, version: int) -> None:
        """Brokers keep the newest version, so a member renews it when its queues change."""
        old = self._by_topic[topic]
        self._by_topic[topic] = parse_subscription(
            topic, old.expression, old.expression_type, version
        )

    def bodies(self) -> list[SubscriptionData]:
        """For a heartbeat."""
        return [subscription_data(each) for each in self._by_topic.values()]


def subscription_of(
    topic: str,
    tags: str | Iterable[str] | None = None,
    sql: str | None = None,
    version: int = _UNVERSIONED,
) -> Subscription:
    """Of tags such as "a || b", or a list of them, or of an SQL92 expression, or of everything.

    Raises BadArgument.
    """
    check_topic(topic)
    expression: Any = _joined(tags)
    for name, value in (("tags", expression), ("sql", sql)):
        if value is not None and not isinstance(value, str):
            raise bad(name, _EXPECTED[name], value)
    if tags is not None and sql is not None:
        raise BadArgument("give `tags` or `sql`, not both", "sql")
    try:
        if sql is not None:
            return parse_subscription(topic, sql, ExpressionType.SQL92, version)
        return parse_subscription(topic, expression or ALL_TAGS, ExpressionType.TAG, version)
    except (BadExpression, TooLarge) as error:
        raise BadArgument(
            f"subscription of {topic!r}: {error}", "tags" if sql is None else "sql"
        ) from None


def _joined(tags: Any) -> Any:
    is_list = isinstance(tags, list | tuple | set | frozenset)
    return " || ".join(tags) if is_list and all(isinstance(tag, str) for tag in tags) else tags


async def check_subscriptions(
    brokers: Brokers, routes: RouteBook, member: tuple[str, str], wanted: Iterable[Subscription]
) -> None:
    """Asks brokers whether they support the filters, as far as they can be asked now.

    `member` is group and client id. Raises RequestRefused if a broker does not.
    """
    for subscription in wanted:
        # Every broker supports tags.
        if subscription.expression_type is not ExpressionType.TAG:
            try:
                await _check(brokers, routes, member, subscription)
            except (NoNameServer, TopicNotFound, Unreachable) as error:
                log.info("filter %s is not checked: %s", subscription.expression, error)


async def _check(
    brokers: Brokers, routes: RouteBook, member: tuple[str, str], subscription: Subscription
) -> None:
    route = await routes.existing(subscription.topic)
    if route is None or not route.masters:
        raise Unreachable(subscription.topic, "no broker has this topic")
    group, client_id = member
    body = SubscriptionCheck(
        client_id=client_id, group=group, subscription_data=subscription_data(subscription)
    )
    address = next(iter(route.masters.values()))
    await brokers.ask(address, RequestCode.CHECK_CLIENT_CONFIG, NoFields(), write_body(body))


def subscription_data(subscription: Subscription) -> SubscriptionData:
    return SubscriptionData(
        topic=subscription.topic,
        sub_string=subscription.expression,
        expression_type=subscription.expression_type,
        tags_set=list(subscription.tags),
        code_set=sorted(subscription.codes),
        sub_version=subscription.version,
    )


_WIRE_STARTS: Final[dict[Any, ConsumeFromWhere]] = {
    StartFrom.AUTO: ConsumeFromWhere.LAST_OFFSET,
    StartFrom.LAST: ConsumeFromWhere.LAST_OFFSET,
    StartFrom.FIRST: ConsumeFromWhere.FIRST_OFFSET,
}


def heartbeat_of(
    config: MemberConfig,
    consume_type: ConsumeType,
    group: str,
    subscriptions: Subscriptions,
    client_id: str,
) -> Heartbeat:
    wanted = subscriptions.bodies()
    # Without topics it reads nothing, and must not be counted as a member.
    if not wanted:
        return Heartbeat(client_id=client_id)
    model = MessageModel.BROADCASTING if config.broadcasting else MessageModel.CLUSTERING
    data = ConsumerData(
        group_name=group,
        consume_type=consume_type,
        message_model=model,
        consume_from_where=_WIRE_STARTS.get(config.start_from, ConsumeFromWhere.TIMESTAMP),
        subscription_data_set=wanted,
    )
    return Heartbeat(client_id=client_id, consumer_data_set=[data])


@final
class Registration:
    """Pulls may use subscriptions that brokers know, and no newer ones: they would be refused."""

    def __init__(
        self, instance: ClientInstance, subscriptions: Subscriptions, clock: Clock
    ) -> None:
        self._instance = instance
        self._subscriptions = subscriptions
        self._clock = clock
        self._registered: dict[str, Subscription] = {}

    def subscription_of(self, topic: str) -> Subscription | None:
        """The subscription of a topic that brokers know."""
        return self._registered.get(topic)

    async def send_heartbeat(self) -> None:
        """Finds the brokers of all topics, and registers there."""
        for topic in tuple(self._subscriptions.by_topic):
            try:
                await self._instance.routes.existing(topic)
            except ClientError as error:
                log.info("the route of %s is not known yet: %s", topic, error)
        await self._send()

    async def renew(self, topic: str) -> None:
        """Registers with a newer version: this member reads other queues of the topic now."""
        if topic in self._subscriptions.by_topic:
            self._subscriptions.renew(topic, self._clock.now_ms())
        await self._send()

    async def _send(self) -> None:
        sent = dict(self._subscriptions.by_topic)
        await self._instance.heartbeats.beat()
        self._registered = sent
