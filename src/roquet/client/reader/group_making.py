"""A group that only commits: 5.x refuses offsets of a group that it does not know, and Apache's
tools find the brokers of a group by its retry topic. A heartbeat makes both.
"""

import asyncio
from collections.abc import Iterable
from typing import final

from roquet.client.cluster.brokers import Brokers
from roquet.client.cluster.routes import RouteBook
from roquet.protocol.bodies.body import write_body
from roquet.protocol.bodies.clients import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    Heartbeat,
    MessageModel,
)
from roquet.protocol.codes import RequestCode
from roquet.protocol.headers.addressed import AddressedHeader
from roquet.protocol.headers.clients import UnregisterClientHeader
from roquet.protocol.names import RETRY_PREFIX


@final
class GroupMaker:
    def __init__(self, brokers: Brokers, routes: RouteBook, client_id: str) -> None:
        self._brokers = brokers
        self._routes = routes
        self._client_id = client_id
        self._known: set[tuple[str, str]] = set()

    async def make(self, group: str, broker_names: Iterable[str]) -> None:
        """At those of the brokers that do not have it. Raises Unreachable or RequestRefused.

        One that has it hears nothing: members of the group would have to share anew.
        """
        unknown = [name for name in broker_names if (group, name) not in self._known]
        if not unknown:
            return
        route = await self._routes.newest(f"{RETRY_PREFIX}{group}")
        having = () if route is None else route.brokers
        await asyncio.gather(*(self._make(group, name) for name in unknown if name not in having))
        self._known.update((group, name) for name in unknown)

    async def _make(self, group: str, broker_name: str) -> None:
        data = ConsumerData(
            group_name=group,
            consume_type=ConsumeType.PULL,
            message_model=MessageModel.CLUSTERING,
            consume_from_where=ConsumeFromWhere.LAST_OFFSET,
        )
        heartbeat = Heartbeat(client_id=self._client_id, consumer_data_set=[data])
        await self._brokers.ask_master(
            broker_name, RequestCode.HEART_BEAT, AddressedHeader(), write_body(heartbeat)
        )
        leaving = UnregisterClientHeader(client_id=self._client_id, consumer_group=group)
        await self._brokers.ask_master(broker_name, RequestCode.UNREGISTER_CLIENT, leaving)
