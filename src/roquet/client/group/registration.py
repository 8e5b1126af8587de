"""What a member of a group registers at brokers, by heartbeats: itself and its subscriptions."""

import logging
from typing import Any, Final, final

from roquet.client.cluster.instance import ClientInstance
from roquet.client.errors import ClientError
from roquet.client.group.config import MemberConfig
from roquet.client.group.start_offset import StartFrom
from roquet.client.group.subscriptions import Subscriptions
from roquet.clock import Clock
from roquet.protocol.bodies.clients import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    Heartbeat,
    MessageModel,
)
from roquet.protocol.subscription import Subscription

log = logging.getLogger(__name__)

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
