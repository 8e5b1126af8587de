"""Where a slave resumes, what it may cut, and which broker a consumer should pull from."""

from typing import Final

from roquet.broker.replication.epochs import EpochHistory, LogPlace, common_end
from roquet.broker.replication.errors import (
    CutRefused,
    NothingInCommon,
    Outdated,
    SlaveAhead,
    SlaveBehind,
)
from roquet.broker.replication.handshake import Admission, Registration
from roquet.broker.replication.in_sync import AckRule
from roquet.protocol.bodies.groups import GroupConfig

MASTER_ID: Final = 0


def first_position(reported: int, log_start: int, log_end: int) -> int:
    """What a slave is sent first, whose log has come so far. Raises SlaveAhead and SlaveBehind.

    One that has nothing yet gets the whole log. Apache would start with its last file, and the
    slave would lack what is older for ever.
    """
    if reported == 0:
        return log_start
    if reported > log_end:
        raise SlaveAhead(reported, log_end)
    if reported < log_start:
        raise SlaveBehind(reported, log_start)
    return reported


def admission(
    slave: Registration,
    history: EpochHistory,
    log_start: int,
    log_end: int,
    *,
    is_elected: bool,
    ack_rule: AckRule | None = None,
) -> Admission:
    """Where a slave of ours resumes: after what its log and the master's have in common.

    What follows that, it has to cut off. That is right if it wrote that itself, as a master whose
    successor never got it, and if the master was elected for the longest log. Otherwise the master
    has lost what the slave still has, and an operator has to decide.

    Raises Outdated for a slave that knows a later master, SlaveAhead, SlaveBehind and
    NothingInCommon.
    """
    epoch = history.latest
    if slave.seen_epoch > epoch:
        raise Outdated(epoch, slave.seen_epoch)
    if slave.log_start == slave.log_end:
        # It has nothing, and starts where the master does.
        return Admission(epoch, history.starts, slave.log_end, ack_rule)
    end = common_end(history, log_end, EpochHistory(slave.epochs), slave.log_end)
    if end < slave.log_start:
        raise NothingInCommon(slave.log_start, end)
    if end < log_start:
        raise SlaveBehind(end, log_start)
    wrote_it = EpochHistory(slave.epochs).at(slave.log_end).author == slave.author
    if end < slave.log_end and not (wrote_it or is_elected):
        raise SlaveAhead(slave.log_end, end)
    return Admission(epoch, history.starts, end, ack_rule)


def check_cut(
    history: EpochHistory, log_start: int, log_end: int, *, cut_end: int, acknowledged: LogPlace
) -> None:
    """Whether a slave may cut its log there by itself, to follow its master. Raises CutRefused.

    What a master wrote and could not send to its successor was written since it took over. A cut
    that goes further means that the successor has lost something, and so does one that takes what
    is known to be acknowledged. Both must not follow from an election that went wrong.
    """
    # Another log may have been acknowledged up to there, which this broker does not have.
    is_of_this_log = history.at(acknowledged.end).number == acknowledged.epoch
    if cut_end < acknowledged.end <= log_end and is_of_this_log:
        reason = f"everything before {acknowledged.end} was acknowledged"
        raise CutRefused(cut_end, log_end, reason)
    reign_start = history.last_reign_start(log_end)
    if cut_end < reign_start:
        reason = f"what lies before {reign_start} was written by an earlier master"
        raise CutRefused(cut_end, log_end, reason)
    if cut_end <= log_start < log_end:
        raise CutRefused(cut_end, log_end, "that would be the whole log")


def suggested_broker(group: GroupConfig | None, *, is_behind: bool) -> int:
    """The id of the broker that a group should pull from next, where slaves may be read.

    `is_behind`: what it reads has left the memory, so a slave can fetch it from disk as well.
    """
    if group is None:
        return MASTER_ID
    return group.which_broker_when_consume_slowly if is_behind else group.broker_id
