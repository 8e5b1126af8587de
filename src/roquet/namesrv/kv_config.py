"""Settings that operators keep at the name server: namespace -> key -> text.

    kvConfig.json   {"configTable":{"ORDER_TOPIC_CONFIG":{"TopicA":"broker-a:4"}}}

A change is answered by `saving`: when it is on disk.
"""

from typing import Final, final

from roquet.namesrv.saving import Saving
from roquet.net.errors import TableFull
from roquet.protocol.bodies.body import Body, always, read_body, write_body
from roquet.state_file import StateFile

# Of all names and values, with what each of them takes besides.
KV_CONFIG_SIZE_MAX: Final = 4 << 20
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
        """Raises TableFull; what was there may always become shorter."""
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
