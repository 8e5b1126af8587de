from collections.abc import Sequence
from typing import final

from roquet.broker.pop.in_flight import PopKey
from roquet.broker.pop.journal_writing import CutTexts
from roquet.protocol.messages.drafts import RecordDraft
from roquet.store.fast_appends import FastAppends

@final
class RecordTexts:
    def __init__(self, appends: FastAppends, draft: RecordDraft, cut: CutTexts) -> None: ...
    def put_pop(
        self,
        journal_queue_id: int,
        key: PopKey,
        offsets: Sequence[int],
        invisible_ms: int,
        next_offset: int,
        now_ms: int,
    ) -> int | None: ...
    def put_acks(
        self, journal_queue_id: int, key: PopKey, offsets: Sequence[int], now_ms: int
    ) -> int | None: ...
