"""Why a link between a master and a slave cannot go on.

RoquetError
├── MasterRefused      a table cannot be copied; a slave asks again
└── LinkError          costs the link; a slave tries again
    ├── BadFrame       bytes that cannot be a frame
    ├── LinkClosed     the other side has ended it
    ├── SlaveAhead     the slave has what the master does not
    └── SlaveBehind    the master no longer has what the slave needs next
"""

from typing import Final

from roquet.errors import RoquetError

_COPY_ANEW: Final = (
    "stop it, move its store directory away and start it again: it copies everything anew"
)


def reason_of(error: Exception) -> str:
    """For people: a time that has passed has no words of its own."""
    return "no answer in time" if isinstance(error, TimeoutError) else str(error)


class MasterRefused(RoquetError):
    def __init__(self, request_code: int, code: int, remark: str | None) -> None:
        super().__init__(f"request {request_code} was refused: code {code}, {remark}")
        self.request_code = request_code
        self.code = code
        self.remark = remark


class LinkError(RoquetError):
    """Something about a link."""


class BadFrame(LinkError):
    def __init__(self, physical_offset: int, size: int) -> None:
        super().__init__(f"no frame has {size} bytes at {physical_offset}")
        self.physical_offset = physical_offset
        self.size = size


class LinkClosed(LinkError):
    pass


class SlaveAhead(LinkError):
    def __init__(self, reported: int, log_end: int) -> None:
        super().__init__(
            f"its log ends at {reported}, the master's at {log_end}: it has what the master lost, "
            f"or follows the wrong one. If the master is right, {_COPY_ANEW}"
        )
        self.reported = reported
        self.log_end = log_end


class SlaveBehind(LinkError):
    def __init__(self, reported: int, log_start: int) -> None:
        super().__init__(
            f"its log ends at {reported}, and what follows has expired: the master's begins at "
            f"{log_start}. To have it follow again, {_COPY_ANEW}"
        )
        self.reported = reported
        self.log_start = log_start
