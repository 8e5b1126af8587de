"""Brokers that answers in part are without, and why; brokers that left without unregistering.

Name servers remember lost brokers for a day. They share no state: one that started later does not
know of brokers that left before, and one that is cut off from a broker has lost it while the others
have it. Apache's name servers do not remember any.
"""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, final

from roquet.client.arguments import utc
from roquet.client.cluster.brokers import reply_body
from roquet.client.cluster.routes import MASTER_ID
from roquet.client.errors import NoNameServer, RequestRefused, Unreachable
from roquet.protocol.bodies.name_server import ClusterInfo, LostBroker as LostBrokerBody
from roquet.protocol.codes import RequestCode
from roquet.protocol.headers.name_server import ClusterInfoHeader, UnregisterBrokerHeader


@dataclass(frozen=True, slots=True)
class MissingBroker:
    """A broker that answers of `Admin.partial` are without, or whose part may be incomplete."""

    broker_name: str
    address: str
    error: Unreachable | RequestRefused

    @property
    def reason(self) -> str:
        return self.error.reason if isinstance(self.error, Unreachable) else str(self.error)


@final
class MissingBrokers:
    """By broker name; of each the first failure."""

    def __init__(self) -> None:
        self._by_name: dict[str, MissingBroker] = {}
        # By address. One that hangs is waited for once, not once for each topic.
        self._unreachable: dict[str, MissingBroker] = {}
        # Whether those are noted that name servers have lost. One asks, the others wait for it.
        self.has_lost = False
        self.looking_for_lost = asyncio.Lock()

    def __iter__(self) -> Iterator[MissingBroker]:
        return (self._by_name[name] for name in sorted(self._by_name))

    def note(self, broker: MissingBroker) -> None:
        self._by_name.setdefault(broker.broker_name, broker)

    def note_unreachable(self, broker: MissingBroker) -> None:
        """It is not asked again."""
        self.note(broker)
        self._unreachable.setdefault(broker.address, broker)

    def unreachable(self, address: str) -> MissingBroker | None:
        return self._unreachable.get(address)


if TYPE_CHECKING:
    from roquet.client.admin.servers import AdminServers


@dataclass(frozen=True, slots=True)
class LostBroker:
    """A broker that left without unregistering, within the last day, and has not come back."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    # Its last heartbeat.
    since: datetime
    # How the name server noticed it.
    reason: str

    @property
    def is_master(self) -> bool:
        return self.broker_id == MASTER_ID

    @property
    def role(self) -> str:
        return "master" if self.is_master else f"slave {self.broker_id}"


async def lost_brokers(servers: "AdminServers") -> list[LostBroker] | None:
    """None if no name server remembers any. Raises NoNameServer if none can be reached."""
    registered = await _cluster_infos(servers)
    remembered = [each.lost_brokers for each in registered if each.lost_brokers is not None]
    if not remembered:
        return None
    return lost_everywhere((each for lost in remembered for each in lost), registered)


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


async def _cluster_infos(servers: "AdminServers") -> list[ClusterInfo]:
    """Of the name servers that can be reached. Raises NoNameServer if none can."""

    async def asked(address: str) -> ClusterInfo | Unreachable:
        try:
            header = ClusterInfoHeader(with_lost_brokers=True)
            code = RequestCode.GET_BROKER_CLUSTER_INFO
            reply = await servers.brokers.ask(address, code, header)
            return reply_body(ClusterInfo, reply, address)
        except Unreachable as unreachable:
            return unreachable

    found = await asyncio.gather(*map(asked, servers.name_servers.addresses))
    failures = [each.reason for each in found if isinstance(each, Unreachable)]
    if len(failures) == len(found):
        raise NoNameServer(failures)
    return [each for each in found if not isinstance(each, Unreachable)]


def _lost_broker(body: LostBrokerBody) -> LostBroker:
    return LostBroker(
        body.cluster_name,
        body.broker_name,
        body.broker_id,
        body.broker_addr,
        utc(body.lost_since),
        body.reason,
    )
