"""Every frame recorded from real Apache peers, as `tests/golden/README.md` describes them."""

import base64
import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

from roquet.protocol.command import Command, decode_command
from roquet.protocol.frame_decoder import FrameDecoder

FRAMES_DIR = Path(__file__).parent.parent / "golden" / "frames"
FRAME_COUNT = 3098


class GoldenFrame(NamedTuple):
    scenario: str
    seq: int
    kind: str  # request, response, oneway
    request_code: int  # of a response: the code of the request it answers
    sender: str
    receiver: str
    data: bytes  # the whole frame, prefix included

    @property
    def place(self) -> str:
        """Where to look at it: file name and sequence number."""
        return f"{self.scenario}#{self.seq}"

    @property
    def command(self) -> Command:
        (frame,) = FrameDecoder().cut(self.data)
        return decode_command(frame)


@cache
def golden_frames() -> tuple[GoldenFrame, ...]:
    """All of them, ordered by file and sequence number."""
    return tuple(
        _frame(path.stem, line)
        for path in sorted(FRAMES_DIR.glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    )


def _frame(scenario: str, line: str) -> GoldenFrame:
    entry = json.loads(line)
    return GoldenFrame(
        scenario,
        entry["seq"],
        entry["kind"],
        entry["request_code"],
        entry["from"],
        entry["to"],
        base64.b64decode(entry["b64"], validate=True),
    )
