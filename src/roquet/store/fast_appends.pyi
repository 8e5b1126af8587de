from typing import final

from roquet.store.appends import AppendAdmission
from roquet.store.commit_log import CommitLog
from roquet.store.consume_queue import ConsumeQueue
from roquet.store.flushing import Flusher
from roquet.store.keys.key_index import KeyIndex

@final
class FastAppends:
    def __init__(
        self,
        log: CommitLog,
        queues: dict[tuple[bytes, int], ConsumeQueue],
        index: KeyIndex | None,
        admission: AppendAdmission,
        flusher: Flusher,
        *,
        body_size_max: int,
        is_sync: bool,
    ) -> None: ...
