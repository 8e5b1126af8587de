"""What the handlers of a name server work on: its tables, its options, and files that save them.

    kvConfig.json   {"configTable":{"ORDER_TOPIC_CONFIG":{"TopicA":"broker-a:4"}}}

A change takes effect at once and is acknowledged when it is on disk.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

import msgspec

from roquet.clock import Clock
from roquet.namesrv.config import KV_CONFIG_SIZE_MAX, NameServerConfig
from roquet.namesrv.lost_brokers import LostBrokers
from roquet.namesrv.route_table import RouteTable
from roquet.net.errors import TableFull
from roquet.net.limits import ConnectionBudget
from roquet.net.router import Deferred, Reply, Request
from roquet.net.tls.contexts import ServerTls
from roquet.protocol.bodies.body import Body, always, read_body, write_body
from roquet.protocol.codes import ResponseCode
from roquet.settings.changes import ChangedSettings
from roquet.state_file import StateFile, StateNotSaved
from roquet.throttled_log import ThrottledLog

if TYPE_CHECKING:
    from roquet.access.guard import AccessGuard

log = logging.getLogger(__name__)

_ENTRY_COST: Final = 200


def _cost(namespace: str, key: str, value: str) -> int:
    return _ENTRY_COST + len(namespace) + len(key) + len(value)


class KvConfigFile(Body, kw_only=True):
    config_table: dict[str, dict[str, str]] = always({})


def _read_file(content: bytes) -> KvConfigFile:
    return read_body(KvConfigFile, content)


@final
class KvConfig:
    def __init__(self, file: StateFile, size_max: int = KV_CONFIG_SIZE_MAX) -> None:
        """Raises BadStateFile."""
        self._table = (file.load(_read_file) or KvConfigFile()).config_table
        self._size_max = size_max
        self.size = sum(
            _cost(namespace, key, value)
            for namespace, table in self._table.items()
            for key, value in table.items()
        )
        self.saving = Saving(file, self._content)

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def table(self, namespace: str) -> dict[str, str] | None:
        return self._table.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Raises TableFull; an existing value may always become shorter."""
        old = self.get(namespace, key)
        more = _cost(namespace, key, value) - (0 if old is None else _cost(namespace, key, old))
        if more > 0 and self.size + more > self._size_max:
            raise TableFull("bytes of settings", self._size_max, "maxKvConfigBytes")
        self._table.setdefault(namespace, {})[key] = value
        self.size += more

    def delete(self, namespace: str, key: str) -> None:
        table = self._table.get(namespace, {})
        old = table.pop(key, None)
        if old is not None:
            self.size -= _cost(namespace, key, old)
        if not table:
            self._table.pop(namespace, None)

    def _content(self) -> bytes:
        return write_body(KvConfigFile(config_table=self._table))


class _Waiting(NamedTuple):
    deferred: Deferred
    reply: Reply


@final
class Saving:
    """Saves a small file after changes by operators; `content` returns what it has to hold."""

    def __init__(self, file: StateFile, content: Callable[[], bytes]) -> None:
        self._file = file
        self._content = content
        self._unsaved: list[_Waiting] = []
        self._has_unsaved = asyncio.Event()

    def save_soon(self) -> None:
        self._has_unsaved.set()

    def answer_when_saved(self, request: Request[Any], reply: Reply | None = None) -> Deferred:
        deferred = Deferred(request)
        self._unsaved.append(_Waiting(deferred, reply or Reply()))
        self.save_soon()
        return deferred

    async def save_changes(self) -> None:
        """Saves whenever something has changed, forever; changes made meanwhile share a save."""
        while True:
            await self._has_unsaved.wait()
            self._has_unsaved.clear()
            waiting, self._unsaved = self._unsaved, []
            failure = await self.save_now()
            for deferred, reply in waiting:
                deferred.answer(failure or reply)

    async def save_now(self) -> Reply | None:
        """The reply if it failed, which is logged."""
        try:
            await asyncio.to_thread(self._file.save, self._content())
        except StateNotSaved as error:
            log.error("not saved: %s", error)  # noqa: TRY400  One line an event.
            return Reply(ResponseCode.SYSTEM_ERROR, remark=f"changed, but not saved: {error}")
        return None


class NameServer(msgspec.Struct):
    config: NameServerConfig
    clock: Clock
    routes: RouteTable
    lost: LostBrokers
    kv_config: KvConfig
    changed_settings: ChangedSettings
    settings_saving: Saving
    tls: ServerTls
    connection_budget: ConnectionBudget
    # Warnings about misconfigured brokers.
    warnings: ThrottledLog
    # None without access control.
    guard: "AccessGuard | None" = None
