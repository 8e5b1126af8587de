"""From a key to the messages that have it: the index names candidates, the log decides."""

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from roquet.store.commit_log import CommitLog
from roquet.store.errors import BadRecord
from roquet.store.keys.key_index import KeyIndex
from roquet.store.keys.message_keys import has_key

# Some of what is found only has the same hash.
_CANDIDATES: Final = 4


class KeyQuery(msgspec.Struct, frozen=True):
    """Messages of a topic, stored between two times."""

    topic: str
    key: str
    count_max: int
    begin: int
    end: int


class QueryResult(NamedTuple):
    records: list[bytes]
    # What the index filed last, for clients that want to know how fresh it is.
    last_timestamp: int
    last_physical_offset: int


def messages_with_key(
    index: KeyIndex, log: CommitLog, query: KeyQuery, record_at: Callable[[int], bytes]
) -> QueryResult:
    """The newest ones, in the order of the log.

    `record_at` raises BadRecord for what nobody may read yet.
    """
    topic, key = query.topic.encode(), query.key.encode()
    found: dict[int, bytes] = {}
    for physical_offset in index.find(
        topic, key, query.begin, query.end, _CANDIDATES * query.count_max
    ):
        if len(found) >= query.count_max:
            break
        try:
            if has_key(log.record_at(physical_offset), topic, key):
                found[physical_offset] = record_at(physical_offset)
        except BadRecord:
            continue
    last = index.last
    return QueryResult(
        [found[each] for each in sorted(found)], last.end_timestamp, last.end_physical_offset
    )
