"""Why a link between a master and a slave fails.

RoquetError
├── MasterRefused      a table cannot be fetched; a slave asks again
└── LinkError          costs the link; a slave reconnects
    ├── BadLogFrame    bytes that cannot be a frame
    ├── BadHandshake   a message that cannot be one
    ├── CutRefused     the slave would have to cut what may have been acknowledged
    ├── Diverged       the slave has what its master never had: it is cut, and kept aside
    ├── DuplicateReplica  another broker is linked under the same brokerId
    ├── LinkClosed     the peer closed it, or went silent
    ├── NothingInCommon  the slave no longer has what both had
    ├── NotTrusted     the other side does not know the secret
    ├── Outdated       the other side, or this one, is of an epoch that is over
    ├── Rejected       the master does not want this slave
    ├── SlaveAhead     the slave has what the master does not
    └── SlaveBehind    the master no longer has what the slave needs next
"""

from typing import Final

from roquet.errors import RoquetError

_START_EMPTY: Final = (
    "stop it, move its store directory away and start it again: it then replicates everything"
)


def reason_of(error: Exception) -> str:
    """As text: a TimeoutError has none of its own."""
    return "no answer in time" if isinstance(error, TimeoutError) else str(error)


class MasterRefused(RoquetError):
    def __init__(self, request_code: int, code: int, remark: str | None) -> None:
        super().__init__(f"the master refused request {request_code}: code {code}, {remark}")
        self.request_code = request_code
        self.code = code
        self.remark = remark


class LinkError(RoquetError):
    """Something about a link."""


class BadLogFrame(LinkError):
    def __init__(self, physical_offset: int, size: int) -> None:
        super().__init__(f"invalid frame: {size} bytes at offset {physical_offset}")
        self.physical_offset = physical_offset
        self.size = size


class BadHandshake(LinkError):
    pass


class NotTrusted(LinkError):
    def __init__(self) -> None:
        super().__init__(
            "it does not know the secret of this broker: replication.secretFile has to be the same"
            " for all brokers of one name"
        )


class Outdated(LinkError):
    """`epoch` is over, because `seen_epoch` has started."""

    def __init__(self, epoch: int, seen_epoch: int) -> None:
        super().__init__(f"epoch {epoch} is over: there is a master of epoch {seen_epoch}")
        self.epoch = epoch
        self.seen_epoch = seen_epoch


class Rejected(LinkError):
    pass


class Diverged(LinkError):
    def __init__(self, common_end: int, log_end: int) -> None:
        super().__init__(
            f"the log diverged: it ends at {log_end}, and what follows {common_end} was never the"
            " master's"
        )
        self.common_end = common_end
        self.log_end = log_end


class CutRefused(LinkError):
    """More would be cut than this broker may have written alone: an operator has to decide."""

    def __init__(self, cut_end: int, log_end: int, reason: str) -> None:
        super().__init__(
            f"the log ends at {log_end} and has only {cut_end} bytes in common with the master's:"
            f" nothing is cut, because {reason}. Compare both logs before one of them goes: if the"
            f" master is right, {_START_EMPTY}; if this broker is, demote the master with --force"
            " and promote this one"
        )
        self.cut_end = cut_end
        self.log_end = log_end
        self.reason = reason


class DuplicateReplica(LinkError):
    def __init__(self, replica_id: int, holder: str, refused: str) -> None:
        super().__init__(
            f"brokerId={replica_id} is in use by {holder}; {refused} has the same id and another"
            " store: every broker of a name needs a brokerId of its own"
        )
        self.replica_id = replica_id
        self.holder = holder
        self.refused = refused


class LinkClosed(LinkError):
    pass


class SlaveAhead(LinkError):
    def __init__(self, reported: int, log_end: int) -> None:
        super().__init__(
            f"the slave's log ends at {reported}, the master's at {log_end}: the slave has what the"
            f" master lost, or replicates the wrong master. If the master is right, {_START_EMPTY}"
        )
        self.reported = reported
        self.log_end = log_end


class NothingInCommon(LinkError):
    def __init__(self, log_start: int, common_end: int) -> None:
        super().__init__(
            f"the slave's log starts at {log_start}, and what it has in common with the master's"
            f" ends at {common_end}. To replicate again, {_START_EMPTY}"
        )
        self.log_start = log_start
        self.common_end = common_end


class SlaveBehind(LinkError):
    def __init__(self, reported: int, log_start: int) -> None:
        super().__init__(
            f"the slave's log ends at {reported}, and what follows has expired: the master's starts"
            f" at {log_start}. To replicate again, {_START_EMPTY}"
        )
        self.reported = reported
        self.log_start = log_start
