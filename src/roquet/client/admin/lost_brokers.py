"""Brokers that left without unregistering, as name servers remember them for a day.

Name servers share no state: one that started later has not seen who left before, and one that is
cut off from a broker has lost it while the others have it. Those of Apache remember nobody.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from roquet.client.cluster.brokers import reply_body
from roquet.client.cluster.routes import MASTER_ID
from roquet.client.errors import NoNameServer, RequestRefused, Unreachable
from roquet.client.timestamps import utc
from roquet.protocol.bodies.body import Body
from roquet.protocol.bodies.name_server import (
    ClusterInfo,
    LostBroker as LostBrokerBody,
    LostBrokerList,
)
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.headers.addressed import NoFields
from roquet.protocol.headers.name_server import UnregisterBrokerHeader

if TYPE_CHECKING:
    from roquet.client.admin.servers import AdminServers

B = TypeVar("B", bound=Body)


@dataclass(frozen=True, slots=True)
class LostBroker:
    """A broker that left without unregistering, within the last day, and has not come back."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    # Its last sign of life.
    since: datetime
    # How the name server noticed it.
    reason: str

    @property
    def is_master(self) -> bool:
        return self.broker_id == MASTER_ID


async def lost_brokers(servers: "AdminServers") -> list[LostBroker] | None:
    remembered, registered = await asyncio.gather(
        _answers(servers, RequestCode.GET_LOST_BROKERS, LostBrokerList),
        _answers(servers, RequestCode.GET_BROKER_CLUSTER_INFO, ClusterInfo),
    )
    if not remembered:
        return None
    return lost_everywhere((each for answer in remembered for each in answer.brokers), registered)


def lost_everywhere(
    lost: Iterable[LostBrokerBody], registered: Iterable[ClusterInfo]
) -> list[LostBroker]:
    """Lost at one name server and registered at none, the one lost first comes first."""
    present = {
        (group.cluster, address)
        for info in registered
        for group in info.broker_addr_table.values()
        for address in group.broker_addrs.values()
    }
    # What several name servers have noticed counts from the last time that one has seen it.
    latest = {
        (each.cluster_name, each.broker_addr): each
        for each in sorted(lost, key=lambda each: each.lost_since)
    }
    return [_lost_broker(each) for place, each in latest.items() if place not in present]


async def forget_broker(servers: "AdminServers", lost: LostBroker) -> None:
    header = UnregisterBrokerHeader(
        broker_name=lost.broker_name,
        broker_addr=lost.address,
        cluster_name=lost.cluster,
        broker_id=lost.broker_id,
    )
    await servers.call_each_name_server(RequestCode.UNREGISTER_BROKER, header)


async def _answers(servers: "AdminServers", code: RequestCode, body_type: type[B]) -> list[B]:
    """Of the name servers that know the request. Raises NoNameServer if none can be reached."""

    async def asked(address: str) -> B | Unreachable | None:
        try:
            reply = await servers.brokers.ask(address, code, NoFields())
            return reply_body(body_type, reply, address)
        except Unreachable as unreachable:
            return unreachable
        except RequestRefused as refused:
            if refused.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return None
            raise

    found = await asyncio.gather(*map(asked, servers.name_servers.addresses))
    failures = [each.reason for each in found if isinstance(each, Unreachable)]
    if len(failures) == len(found):
        raise NoNameServer(failures)
    return [each for each in found if each is not None and not isinstance(each, Unreachable)]


def _lost_broker(body: LostBrokerBody) -> LostBroker:
    return LostBroker(
        body.cluster_name,
        body.broker_name,
        body.broker_id,
        body.broker_addr,
        utc(body.lost_since),
        body.reason,
    )
