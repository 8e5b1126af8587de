"""Every master of a cluster, for clients that each of them has to know.

A client of a topic meets the brokers of that topic. A producer whose transactions may be asked
about has to be known before it sends anything, because the one that began them may be gone.
"""

import asyncio
import logging
from typing import Final, final

from roquet.client.cluster.name_servers import NameServers
from roquet.client.cluster.routes import MASTER_ID
from roquet.client.errors import ClientError, NoNameServer, RequestRefused
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.name_server import ClusterInfo
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.errors import BadBody
from roquet.protocol.headers.addressed import NoFields

log = logging.getLogger(__name__)

_ASK_TIMEOUT_S: Final = 3.0
# As long as nobody has said which masters there are.
_AGAIN_S: Final = 1.0


@final
class AllMasters:
    """`has_news` is set when there are others than before."""

    def __init__(self, name_servers: NameServers, has_news: asyncio.Event) -> None:
        self._name_servers = name_servers
        self._has_news = has_news
        self._is_failing = False
        self.addresses: frozenset[str] = frozenset()

    async def look(self) -> bool:
        """Whether a name server has said it; if not, those that are known stay."""
        try:
            addresses = await self._ask()
        except ClientError as error:
            level = logging.DEBUG if self._is_failing else logging.WARNING
            log.log(level, "which brokers there are is not known, asking on: %s", error)
            self._is_failing = True
            return False
        self._is_failing = False
        if addresses != self.addresses:
            self.addresses = addresses
            self._has_news.set()
        return bool(addresses)

    async def keep_known(self, period_s: float) -> None:
        """Looks after each period, sooner while nothing is known; for ever."""
        while True:
            await asyncio.sleep(period_s if self.addresses else min(_AGAIN_S, period_s))
            await self.look()

    async def _ask(self) -> frozenset[str]:
        reply = await self._name_servers.call(
            RequestCode.GET_BROKER_CLUSTER_INFO, NoFields(), _ASK_TIMEOUT_S
        )
        if reply.code != ResponseCode.SUCCESS:
            raise RequestRefused("the name server", reply.code, reply.remark)
        try:
            info = read_body(ClusterInfo, reply.body)
        except BadBody as error:
            raise NoNameServer([f"it answered nonsense: {error}"]) from None
        return frozenset(
            data.broker_addrs[MASTER_ID]
            for data in info.broker_addr_table.values()
            if MASTER_ID in data.broker_addrs
        )
