"""Messages that only a displaced master had, for an operator who wants to send them again.

They are noted as sent before they are: whatever interrupts it, nothing is sent twice unawares.
"""

from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from roquet.disk import Disk
from roquet.protocol.errors import BadMessage
from roquet.protocol.messages.message import StoredMessage
from roquet.store.divergent import (
    DivergentFile,
    ResentNotes,
    divergent_files,
    messages_of,
    topic_to_resend,
)
from roquet.store.files.layout import layout_of


class Unsent(Enum):
    """Why a send has no new message."""

    SURELY = "it is stored nowhere"
    MAYBE = "it may be stored"


class DivergentMessage(NamedTuple):
    """One message of a divergent file, which has the notes about all of them."""

    file: DivergentFile
    message: StoredMessage
    notes: ResentNotes

    @property
    def topic(self) -> str | None:
        """Where it was sent to; None for what brokers write for themselves."""
        return topic_to_resend(self.message)

    @property
    def new_id(self) -> str | None:
        """Of the message that was sent again; blank if it is not known whether it was."""
        return self.notes.message_id(self.message.physical_offset)


class DivergentContent(NamedTuple):
    messages: list[DivergentMessage]
    # Of each file that cannot be read to its end.
    problems: list[str]


def read_divergent(disk: Disk, root: Path) -> DivergentContent:
    """Of the store in that directory. Raises BadStateFile and OSError."""
    content = DivergentContent([], [])
    for file in divergent_files(disk, layout_of(root)):
        notes = ResentNotes(disk, file)
        try:
            for message in messages_of(disk, file):
                content.messages.append(DivergentMessage(file, message, notes))
        except BadMessage as error:
            content.problems.append(f"{file.path.name}: {error}")
    return content


def note_sending(messages: Iterable[DivergentMessage]) -> None:
    """They are about to be sent. Raises StateNotSaved."""
    for own in _by_file(messages):
        own[0].notes.begin([each.message.physical_offset for each in own])


def note_outcomes(messages: Sequence[DivergentMessage], outcomes: Sequence[str | Unsent]) -> None:
    """Each was sent, with this new id, or not. Raises StateNotSaved."""
    by_place = {
        (each.file.path, each.message.physical_offset): outcome
        for each, outcome in zip(messages, outcomes, strict=True)
    }
    for own in _by_file(messages):
        ended = {
            each.message.physical_offset: by_place[each.file.path, each.message.physical_offset]
            for each in own
        }
        own[0].notes.end(
            {offset: outcome for offset, outcome in ended.items() if isinstance(outcome, str)},
            [offset for offset, outcome in ended.items() if outcome is Unsent.SURELY],
        )


def _by_file(messages: Iterable[DivergentMessage]) -> list[list[DivergentMessage]]:
    found: dict[Path, list[DivergentMessage]] = {}
    for each in messages:
        found.setdefault(each.file.path, []).append(each)
    return list(found.values())
