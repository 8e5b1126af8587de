"""Brokers that left without unregistering: crashed, cut off, or killed.

    (cluster, address) -> its name and id, since when it is lost, and why

Routes forget a lost broker at once. Operators must not: what it holds is missing in every answer.
So it is remembered for a day, until it registers again, until a new broker takes its name and id,
or until it is unregistered, which an operator can do for it. The table survives a restart:

    lostBrokers.json   {"brokers":[{"brokerAddr":"10.0.0.1:10911","brokerName":"broker-a", ...}]}
"""

import logging
from collections.abc import Callable
from typing import Final, final

from roquet.clock import Clock
from roquet.namesrv.route_table import BrokerIdentity, BrokerKey
from roquet.protocol.bodies.body import read_body, write_body
from roquet.protocol.bodies.name_server import LostBroker, LostBrokerList
from roquet.state_file import BadStateFile, StateFile

log = logging.getLogger(__name__)

FILE_NAME: Final = "lostBrokers.json"
KEPT_MS: Final = 86_400_000
# The longest lost one makes room: registrations are not trusted to be few.
LOST_COUNT_MAX: Final = 1_000


def _read_file(content: bytes) -> LostBrokerList:
    return read_body(LostBrokerList, content)


@final
class LostBrokers:
    """`on_change` is called when the table has to be saved."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # In the order of their loss.
        self._by_key: dict[BrokerKey, LostBroker] = {}
        self._is_closed = False
        self.on_change: Callable[[], None] = lambda: None

    def load(self, file: StateFile) -> None:
        """A table that cannot be read is set aside: it is no reason not to start."""
        try:
            saved = file.load(_read_file)
        except BadStateFile as error:
            log.warning("starting without the table of lost brokers: %s", error)
            file.set_aside()
            return
        for lost in (saved or LostBrokerList()).brokers[-LOST_COUNT_MAX:]:
            self._by_key[BrokerKey(lost.cluster_name, lost.broker_addr)] = lost

    def to_bytes(self) -> bytes:
        return write_body(LostBrokerList(brokers=self.known()))

    def known(self) -> list[LostBroker]:
        """Those lost within the last day; the one lost first comes first."""
        oldest_ms = self._clock.now_ms() - KEPT_MS
        return [lost for lost in self._by_key.values() if lost.lost_since >= oldest_ms]

    def note(self, identity: BrokerIdentity, reason: str, silent_s: float = 0.0) -> None:
        """A broker is lost since its last heartbeat, `silent_s` ago."""
        if self._is_closed:
            return
        self._by_key.pop(identity.key, None)
        while len(self._by_key) >= LOST_COUNT_MAX:
            del self._by_key[next(iter(self._by_key))]
        self._by_key[identity.key] = LostBroker(
            broker_addr=identity.address,
            broker_id=identity.broker_id,
            broker_name=identity.name,
            cluster_name=identity.cluster,
            lost_since=self._clock.now_ms() - round(silent_s * 1000),
            reason=reason,
        )
        self.on_change()

    def returned(self, identity: BrokerIdentity, *, is_new: bool) -> None:
        """It has registered. A new broker replaces the lost one of its name and id.

        A slave that was promoted is not new: with it, the lost master is still one broker less.
        """
        place = (identity.cluster, identity.name, identity.broker_id)
        self._forget_where(
            lambda key, lost: (
                key == identity.key
                or (is_new and (lost.cluster_name, lost.broker_name, lost.broker_id) == place)
            )
        )

    def forget(self, key: BrokerKey) -> bool:
        """It was unregistered. Returns whether it was lost."""
        return self._forget_where(lambda each, _lost: each == key)

    def expire(self) -> None:
        oldest_ms = self._clock.now_ms() - KEPT_MS
        self._forget_where(lambda _key, lost: lost.lost_since < oldest_ms)

    def close(self) -> None:
        """This server stops: connections that end from now on do not mean that brokers are lost."""
        self._is_closed = True

    def _forget_where(self, is_over: Callable[[BrokerKey, LostBroker], bool]) -> bool:
        over = [key for key, lost in self._by_key.items() if is_over(key, lost)]
        for key in over:
            del self._by_key[key]
        if over:
            self.on_change()
        return bool(over)
