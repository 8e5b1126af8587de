"""Names that servers and clients have to agree on: the system's topics and groups, and the rule
that all names follow. What only one of them knows stays with it.
"""

import re
from typing import Final

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
# Of the topics where our tools note which dead letters of a group they sent again. No longer than
# that of retries: with some groups a name would become too long.
RESENT_PREFIX: Final = "%SENT%"
SYSTEM_PREFIX: Final = "rmq_sys_"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"  # whose offsets are those of the transaction check
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"  # the same for the journal of popped messages

TEMPLATE_TOPIC: Final = "TBW102"  # what topics made by a send inherit from
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TOO_MANY_CHECKS_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
# Of the topic where a broker notes what was popped; the name of its cluster follows.
REVIVE_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
# Ours: changes of the tables of topics and groups, in the log of a master that has epochs.
TABLES_TOPIC: Final = "rmq_sys_roquet_tables"

# Where name servers keep which topics are ordered.
ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"

TOOLS_GROUP: Final = "TOOLS_CONSUMER"
# Topics that every broker has.
BUILT_IN_GROUPS: Final = (
    TOOLS_GROUP,
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
)

# What only the broker itself writes to.
CLOSED_TOPICS: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        TOO_MANY_CHECKS_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        TIMER_TOPIC,
        TABLES_TOPIC,
    }
)
# As 4.9 lists them; it knows nothing of 5.x, nor of us.
SYSTEM_TOPICS: Final = (CLOSED_TOPICS - {TIMER_TOPIC, TABLES_TOPIC}) | {
    TEMPLATE_TOPIC,
    BENCHMARK_TOPIC,
    TRACE_TOPIC,
}
# Every broker of 5.5 has them.
_SYSTEM_TOPICS_5_5: Final = frozenset(
    {"RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"}
)

NAME_SIZE_MAX: Final = 127
# Of 5.x, retry topics of the second form have a plus between group and topic.
_has_name_characters = re.compile(
    r"[%|a-zA-Z0-9_-]+|%RETRY%[%|a-zA-Z0-9_-]+\+[%|a-zA-Z0-9_-]+"
).fullmatch


def is_name(text: str) -> bool:
    """Whether a broker lets a topic or group be called that."""
    return len(text) <= NAME_SIZE_MAX and has_name_characters(text)


def has_name_characters(text: str) -> bool:
    """Names become directories: no dots or slashes."""
    return _has_name_characters(text) is not None


def is_closed_topic(topic: str) -> bool:
    """Whether only the broker itself writes there."""
    return topic in CLOSED_TOPICS or topic.startswith(REVIVE_PREFIX)


def is_system_topic(topic: str) -> bool:
    return topic in SYSTEM_TOPICS or topic in _SYSTEM_TOPICS_5_5 or topic.startswith(SYSTEM_PREFIX)


def retry_topic(group: str) -> str:
    return RETRY_PREFIX + group


def pop_retry_topic(group: str, topic: str, *, is_v2: bool = False) -> str:
    """Where popped messages of a topic come again. Of the first form two groups may share one."""
    return f"{RETRY_PREFIX}{group}{'+' if is_v2 else '_'}{topic}"


def revive_topic(cluster: str) -> str:
    return REVIVE_PREFIX + cluster


def dlq_topic(group: str) -> str:
    return DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    return f"{cluster}_REPLY_TOPIC"
