"""What brokers hear of a member of a group: who it is, and what it wants of its topics."""

import logging
from typing import Any, Final, final

from roquet.client.cluster.instance import ClientInstance
from roquet.client.errors import ClientError
from roquet.client.group.config import MemberConfig
from roquet.client.group.start_offset import StartFrom
from roquet.client.group.subscriptions import Subscriptions
from roquet.clock import Clock
from roquet.protocol.bodies.heartbeat import (
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
    # Without topics it is nobody's reader, and must not be counted as one.
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
class Introductions:
    """Pulls may ask for what brokers have been told, and for nothing newer: they would refuse."""

    def __init__(
        self, instance: ClientInstance, subscriptions: Subscriptions, clock: Clock
    ) -> None:
        self._instance = instance
        self._subscriptions = subscriptions
        self._clock = clock
        self._told: dict[str, Subscription] = {}

    def subscription_of(self, topic: str) -> Subscription | None:
        """What brokers know to be wanted of a topic."""
        return self._told.get(topic)

    async def introduce(self) -> None:
        """Finds the brokers of all topics, and tells them."""
        for topic in tuple(self._subscriptions.by_topic):
            try:
                await self._instance.routes.existing(topic)
            except ClientError as error:
                log.info("the route of %s is not known yet: %s", topic, error)
        await self._tell()

    async def renew(self, topic: str) -> None:
        """Tells them anew, because this member reads other queues of the topic than before."""
        if topic in self._subscriptions.by_topic:
            self._subscriptions.renew(topic, self._clock.now_ms())
        await self._tell()

    async def _tell(self) -> None:
        told = dict(self._subscriptions.by_topic)
        await self._instance.heartbeats.beat()
        self._told = told
