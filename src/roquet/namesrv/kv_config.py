"""Settings that operators keep at the name server: namespace -> key -> text.

    kvConfig.json   {"configTable":{"ORDER_TOPIC_CONFIG":{"TopicA":"broker-a:4"}}}

A change counts at once and is acknowledged when it is on disk.
"""

import asyncio
import logging
from typing import Any, final

from roquet.net.router import Parked, Reply, Request
from roquet.protocol.bodies.body import Body, always, read_body, write_body
from roquet.protocol.codes import ResponseCode
from roquet.state_file import StateFile, StateNotSaved

log = logging.getLogger(__name__)


class KvConfigFile(Body, kw_only=True):
    config_table: dict[str, dict[str, str]] = always({})


def _read_file(content: bytes) -> KvConfigFile:
    return read_body(KvConfigFile, content)


@final
class KvConfig:
    def __init__(self, file: StateFile) -> None:
        """Raises BadStateFile."""
        self._file = file
        self._table = (file.load(_read_file) or KvConfigFile()).config_table
        self._unsaved: list[Parked] = []
        self._has_unsaved = asyncio.Event()

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def table(self, namespace: str) -> dict[str, str] | None:
        return self._table.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> None:
        self._table.setdefault(namespace, {})[key] = value

    def delete(self, namespace: str, key: str) -> None:
        self._table.get(namespace, {}).pop(key, None)

    def answer_when_saved(self, request: Request[Any]) -> Parked:
        parked = Parked(request)
        self._unsaved.append(parked)
        self._has_unsaved.set()
        return parked

    async def save_changes(self) -> None:
        """Saves whenever something has changed, for ever; changes made meanwhile share a save."""
        while True:
            await self._has_unsaved.wait()
            self._has_unsaved.clear()
            waiting, self._unsaved = self._unsaved, []
            reply = await self._save()
            for parked in waiting:
                parked.answer(reply)

    async def _save(self) -> Reply:
        content = write_body(KvConfigFile(config_table=self._table))
        try:
            await asyncio.to_thread(self._file.save, content)
        except StateNotSaved as error:
            log.error("settings are not saved: %s", error)  # noqa: TRY400  One line an event.
            return Reply(ResponseCode.SYSTEM_ERROR, remark=f"changed, but not saved: {error}")
        return Reply()
