"""How many pops wait for a message, and which of them need not look again."""

from collections import Counter
from typing import NamedTuple, final

from roquet.broker.settings.config import BrokerConfig


class PollKey(NamedTuple):
    topic: str
    group: str
    queue_id: int


@final
class PopPolls:
    """How many pops wait, and which of them need not look. Belongs to the event loop."""

    def __init__(self) -> None:
        self.counts: Counter[PollKey] = Counter()
        self.count = 0
        # The last turn in which a pop of this key found nothing: then the next one does not, too.
        self.empty_turns: dict[PollKey, int] = {}

    def has_room(self, key: PollKey, config: BrokerConfig) -> bool:
        return (
            self.counts[key] < config.pop_poll_count_max
            and self.count < config.all_pop_poll_count_max
        )

    def add(self, key: PollKey) -> None:
        self.counts[key] += 1
        self.count += 1

    def remove(self, key: PollKey) -> None:
        self.counts[key] -= 1
        self.count -= 1
        if not self.counts[key]:
            del self.counts[key]
            self.empty_turns.pop(key, None)
