"""Settings that operators keep at the name server: namespace -> key -> text.

    kvConfig.json   {"configTable":{"ORDER_TOPIC_CONFIG":{"TopicA":"broker-a:4"}}}

A change is answered by `saving`: when it is on disk.
"""

from typing import final

from roquet.namesrv.saving import Saving
from roquet.protocol.bodies.body import Body, always, read_body, write_body
from roquet.state_file import StateFile


class KvConfigFile(Body, kw_only=True):
    config_table: dict[str, dict[str, str]] = always({})


def _read_file(content: bytes) -> KvConfigFile:
    return read_body(KvConfigFile, content)


@final
class KvConfig:
    def __init__(self, file: StateFile) -> None:
        """Raises BadStateFile."""
        self._table = (file.load(_read_file) or KvConfigFile()).config_table
        self.saving = Saving(file, self._content)

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def table(self, namespace: str) -> dict[str, str] | None:
        return self._table.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> None:
        self._table.setdefault(namespace, {})[key] = value

    def delete(self, namespace: str, key: str) -> None:
        self._table.get(namespace, {}).pop(key, None)

    def _content(self) -> bytes:
        return write_body(KvConfigFile(config_table=self._table))
