"""How transactions ended, by the topic that their messages are for; and how long that took."""

from collections import Counter
from typing import Final, final

from roquet.histogram import Histogram

# From what programs do at once to what somebody has to be asked about, in milliseconds.
_AGES_MS: Final = (
    *(1, 5, 10, 50, 100, 500, 1_000, 5_000, 10_000, 60_000),
    *(600_000, 3_600_000, 24 * 3_600_000),
)


@final
class EndedTransactions:
    """Since the broker started."""

    def __init__(self) -> None:
        self.commits: Counter[str] = Counter()
        self.rollbacks: Counter[str] = Counter()
        self.ages_ms = Histogram(_AGES_MS)

    def count_commit(self, topic: str, age_ms: int) -> None:
        self.commits[topic] += 1
        self.ages_ms.add(age_ms)

    def count_rollback(self, topic: str, age_ms: int) -> None:
        self.rollbacks[topic] += 1
        self.ages_ms.add(age_ms)
