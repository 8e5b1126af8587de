from typing import final

from roquet.broker.pop.journal_writing import CutTexts
from roquet.protocol.messages.drafts import RecordDraft
from roquet.store.fast_appends import FastAppends

@final
class RecordTexts:
    def __init__(self, appends: FastAppends, draft: RecordDraft, cut: CutTexts) -> None: ...
