"""Headers of the second half of a transaction: the decision and the question about it."""

from roquet.protocol.fields import Int32, Int64
from roquet.protocol.headers.addressed import TopicAddressedHeader


class EndTransactionHeader(TopicAddressedHeader):
    producer_group: str
    tran_state_table_offset: Int64  # in the queue of half messages
    commit_log_offset: Int64
    commit_or_rollback: Int32  # 8 commit, 12 rollback, 0 not known
    msg_id: str
    from_transaction_check: bool = False
    transaction_id: str | None = None
    topic: str | None = None


class CheckTransactionHeader(TopicAddressedHeader):
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    topic: str | None = None


class ResumeCheckHeader(TopicAddressedHeader):
    msg_id: str | None = None  # the offset id
    topic: str | None = None
