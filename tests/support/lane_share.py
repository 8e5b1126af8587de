"""How much of what clients asked a broker for went through its lane."""

from typing import NamedTuple, Self

from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.name_server import KvTable
from roquet.protocol.codes import RequestCode
from tests.support.blocking_peer import BlockingPeer


class Passed(NamedTuple):
    """Requests since the broker was started, by the way they took."""

    lane_sends: int
    ordinary_sends: int
    lane_pulls: int
    ordinary_pulls: int

    @classmethod
    def at(cls, broker: str) -> Self:
        """As the broker at this address says."""
        with BlockingPeer(broker) as peer:
            reply = peer.call(RequestCode.GET_BROKER_RUNTIME_INFO)
        table = read_body(KvTable, reply.body).table
        names = "laneSends", "ordinarySends", "lanePulls", "ordinaryPulls"
        return cls(*(int(table[name]) for name in names))

    def send_share_since(self, before: "Passed") -> float:
        return _share(
            self.lane_sends - before.lane_sends, self.ordinary_sends - before.ordinary_sends
        )

    def pull_share_since(self, before: "Passed") -> float:
        return _share(
            self.lane_pulls - before.lane_pulls, self.ordinary_pulls - before.ordinary_pulls
        )


def _share(lane: int, ordinary: int) -> float:
    return lane / (lane + ordinary)
