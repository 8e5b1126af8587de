"""Which groups pop which topics, in memory and as `messageRequestMode.json`, Apache's file.

A 5.x client that lets brokers share out its queues asks for its share; the mode in the reply makes
it pull or pop. Operators set the mode (401) for a topic and a group; all others have the default.

    {"messageRequestModeMap":{"orders":{"workers":
        {"consumerGroup":"workers","mode":"POP","popShareQueueNum":8,"topic":"orders"}}}}
"""

from collections.abc import Callable
from typing import Final, final

from roquet.broker.tables.saving import do_nothing
from roquet.net.errors import TableFull
from roquet.protocol.bodies.body import read_body, write_body
from roquet.protocol.bodies.pop import RequestModeSetting, RequestModeTable
from roquet.protocol.names import is_name

MODE_COUNT_MAX: Final = 100_000


@final
class RequestModes:
    """Belongs to the event loop. `on_change` is called after every change except a load."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[str, RequestModeSetting]] = {}
        self._count = 0
        self.change_count = 0
        self.on_change: Callable[[], None] = do_nothing

    def find(self, topic: str, group: str) -> RequestModeSetting | None:
        return self._by_topic.get(topic, {}).get(group)

    def set(self, setting: RequestModeSetting) -> None:
        """Raises TableFull."""
        known = self.find(setting.topic, setting.consumer_group)
        if known == setting:
            return
        if known is None and self._count >= MODE_COUNT_MAX:
            raise TableFull("modes of groups", MODE_COUNT_MAX, "as few as are used")
        self._by_topic.setdefault(setting.topic, {})[setting.consumer_group] = setting
        self._count += known is None
        self._changed()

    def snapshot(self) -> RequestModeTable:
        return RequestModeTable(message_request_mode_map=self._by_topic)

    def follow(self, table: RequestModeTable) -> None:
        """Takes over what the master has."""
        if table.message_request_mode_map != self._by_topic:
            self._take(table)
            self._changed()

    def to_bytes(self) -> bytes:
        return write_body(self.snapshot())

    def load(self, data: bytes) -> list[str]:
        """Returns the names that were left out. Raises BadBody."""
        return self._take(read_body(RequestModeTable, data))

    def _take(self, table: RequestModeTable) -> list[str]:
        found = table.message_request_mode_map
        left_out = [topic for topic in found if not is_name(topic)]
        self._by_topic = {topic: found[topic] for topic in found if topic not in left_out}
        self._count = sum(map(len, self._by_topic.values()))
        return left_out

    def _changed(self) -> None:
        self.change_count += 1
        self.on_change()
