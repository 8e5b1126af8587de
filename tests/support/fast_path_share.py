"""How much of what clients asked a broker for took its fast path."""

from typing import NamedTuple, Self

from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.name_server import KvTable
from roquet.protocol.codes import RequestCode
from tests.support.blocking_peer import BlockingPeer


class Passed(NamedTuple):
    """Requests since the broker was started, by the way they took."""

    fast_sends: int
    slow_sends: int
    fast_pulls: int
    slow_pulls: int

    @classmethod
    def at(cls, broker: str) -> Self:
        """As the broker at this address says."""
        with BlockingPeer(broker) as peer:
            reply = peer.call(RequestCode.GET_BROKER_RUNTIME_INFO)
        table = read_body(KvTable, reply.body).table
        names = "fastSends", "slowSends", "fastPulls", "slowPulls"
        return cls(*(int(table[name]) for name in names))

    def send_share_since(self, before: "Passed") -> float:
        return _share(self.fast_sends - before.fast_sends, self.slow_sends - before.slow_sends)

    def pull_share_since(self, before: "Passed") -> float:
        return _share(self.fast_pulls - before.fast_pulls, self.slow_pulls - before.slow_pulls)


def _share(fast: int, slow: int) -> float:
    return fast / (fast + slow)
