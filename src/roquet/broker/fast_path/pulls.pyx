# cython: boundscheck=False, wraparound=False
"""Pulls of the fast path (11, 361): from a header that was scanned to messages that are there, or will be.

Taken are pulls of everything or by tags, with a subscription of their own or by the heartbeats of
its group. Messages that can be handed out as they lie are; whatever else it finds, or waits for, is
given by `messages/pulls.py`, as to those that come from `handlers/pulling.py`.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcmp

from roquet.broker.fast_path.header_scan cimport ScannedHeader
from roquet.broker.fast_path.pulled_header cimport Pulled, read_pulled
from roquet.broker.tables.tally cimport Tally
from roquet.protocol.binary cimport Span, bytes_of, int64_t
from roquet.protocol.templates.pull_reply cimport Found, found_header
from roquet.store.reading.gathering cimport Gathering
from roquet.store.reading.fast_reads cimport QueueBounds

from functools import partial

from roquet.broker.fast_path.decisions import fast_limits
from roquet.broker.messages.pulls import answer_pull
from roquet.net.router import Request, answer_by
from roquet.protocol.command import Command
from roquet.protocol.headers.messages import PullMessageHeader

cdef enum:
    _COMMIT_OFFSET = 1
    _SUBSCRIPTION = 4
    # Groups times topics, of which honest brokers have fewer.
    _KNOWN_COUNT_MAX = 20_000


@cython.final
cdef class PullDecision:
    """What was decided about the pulls of one group from one topic, and by what."""


@cython.final
cdef class FastPulls:
    """Those of one broker, from whatever connection."""

    def __init__(self, broker):
        self._broker = broker
        self._find_topic = broker.tables.topics.find
        self._find_group = broker.tables.groups.find
        self._find_members = broker.clients.consumers.find
        self._offsets = broker.tables.offsets
        self._resets = broker.tables.offsets.resets
        self._pulled_to = broker.tables.offsets.pulled_to
        self._statistics = broker.statistics
        self._gets = broker.statistics.gets
        self._reads = broker.store.fast_reads
        self._known = {}

    cdef void begin(self) noexcept:
        """Pulls may come, after whatever has happened meanwhile."""
        self._looked_up = None

    cdef Py_ssize_t take(self, connection, const ScannedHeader* header, list replies) except -2:
        """How many bytes answer it now; -1 if it is left: then nothing has happened."""
        cdef Pulled pulled
        cdef PullDecision pull
        cdef Gathering found
        cdef QueueBounds bounds
        if not read_pulled(header, &pulled):
            return -1
        pull = self._pull(&pulled)
        if pull is None or not 0 <= pulled.queue_id < pull.queue_count:
            return -1
        if not self._resets:
            found = self._reads.find(
                pull.encoded_topic, pulled.queue_id, pulled.queue_offset, pull.limits, &bounds
            )
            if found is not None:
                return self._hand_out(pull, &pulled, header.opaque, found, &bounds, replies)
        return self._answer(pull, &pulled, header, connection, replies)

    cdef Py_ssize_t _hand_out(
        self,
        PullDecision pull,
        const Pulled* pulled,
        int64_t opaque,
        Gathering gathering,
        const QueueBounds* bounds,
        list replies,
    ) except -2:
        """What `answer_pull` does when it finds messages."""
        cdef Found found
        cdef bytes head, body
        if pulled.sys_flag & _COMMIT_OFFSET:
            self._offsets.advance(pull.group, pull.topic, pulled.queue_id, pulled.commit_offset)
        found.min_offset = bounds.min_offset
        found.max_offset = bounds.max_offset
        self._pulled_to[pull.group, pull.topic, pulled.queue_id] = gathering.offset
        found.broker_id = 0  # Ours: we are the master.
        found.next_begin_offset = gathering.offset
        found.opaque = opaque
        body = gathering.whole_body()
        if pull.gets is None or pull.gets.is_forgotten:
            pull.gets = self._statistics.group_gets(pull.group, pull.topic)
        self._gets.add(gathering.count, PyBytes_GET_SIZE(body))
        pull.gets.add(gathering.count, PyBytes_GET_SIZE(body))
        head = found_header(&found, PyBytes_GET_SIZE(body))
        # Not joined: many bytes are copied only once, when all replies are.
        replies.append(head)
        replies.append(body)
        return PyBytes_GET_SIZE(head) + PyBytes_GET_SIZE(body)

    cdef Py_ssize_t _answer(
        self,
        PullDecision pull,
        const Pulled* pulled,
        const ScannedHeader* header,
        connection,
        list replies,
    ) except -2:
        """Nothing usual is there: it waits, or hears why."""
        cdef bytes reply
        asked = PullMessageHeader(
            consumer_group=pull.group,
            topic=pull.topic,
            queue_id=pulled.queue_id,
            queue_offset=pulled.queue_offset,
            max_msg_nums=pulled.count_max,
            sys_flag=pulled.sys_flag,
            commit_offset=pulled.commit_offset,
            suspend_timeout_millis=pulled.suspend_timeout_ms,
            sub_version=pulled.sub_version,
        )
        command = Command(header.code, header.opaque, 0, header.version)
        request = Request(asked, command, connection)
        self._looked_up = None
        reply = answer_by(
            partial(answer_pull, self._broker, request, pull.limits), command, request.connection
        )
        if reply is None:
            return 0
        replies.append(reply)
        return PyBytes_GET_SIZE(reply)

    cdef PullDecision _pull(self, const Pulled* pulled):
        """What holds for it now; None if it takes the slow path."""
        cdef PullDecision pull = self._last
        if (
            pull is None
            or not _is_same(pull.encoded_group, pulled.group)
            or not _is_same(pull.encoded_topic, pulled.topic)
        ):
            key = bytes_of(pulled.group), bytes_of(pulled.topic)
            pull = self._known.get(key)
            if pull is None:
                pull = self._decide(key[0], key[1], pulled)
        if pull is not None and not (_is_asked_alike(pull, pulled) and self._holds(pull)):
            pull = self._decide(pull.encoded_group, pull.encoded_topic, pulled)
        self._last = self._looked_up = pull
        return pull if pull is not None and pull.limits is not None else None

    cdef bint _holds(self, PullDecision pull) except -1:
        """Whether the tables hold what it was decided by; they do not change while pulls are read."""
        return pull is self._looked_up or (
            self._broker.config is pull.config
            and self._find_group(pull.group) is pull.group_settings
            and self._find_topic(pull.topic) is pull.topic_settings
            and (pull.has_own_subscription or self._is_subscribed_alike(pull))
        )

    cdef bint _is_subscribed_alike(self, PullDecision pull) except -1:
        return (
            self._find_members(pull.group) is pull.members
            and pull.members is not None
            and pull.members.message_model == pull.message_model
            and pull.members.subscriptions.get(pull.topic) is pull.subscription_data
        )

    cdef PullDecision _decide(self, bytes group, bytes topic, const Pulled* pulled):
        cdef PullDecision pull = PullDecision()
        pull.encoded_group = group
        pull.encoded_topic = topic
        pull.group = group.decode()
        pull.topic = topic.decode()
        pull.config = self._broker.config
        pull.group_settings = self._find_group(pull.group)
        pull.topic_settings = self._find_topic(pull.topic)
        if pull.group_settings is None or pull.topic_settings is None:
            # Not kept, or a stranger could fill the memory with names.
            self._known.pop((group, topic), None)
            return None
        pull.members = self._find_members(pull.group)
        if pull.members is not None:
            pull.message_model = pull.members.message_model
            pull.subscription_data = pull.members.subscriptions.get(pull.topic)
        pull.has_own_subscription = bool(pulled.sys_flag & _SUBSCRIPTION)
        pull.count_max = pulled.count_max
        pull.size_max = pulled.size_max
        pull.sub_version = pulled.sub_version
        pull.subscription = bytes_of(pulled.subscription)
        pull.expression_type = bytes_of(pulled.expression_type)
        asked = PullMessageHeader(
            consumer_group=pull.group,
            topic=pull.topic,
            queue_id=0,
            queue_offset=0,
            max_msg_nums=pull.count_max,
            sys_flag=_SUBSCRIPTION if pull.has_own_subscription else 0,
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=pull.sub_version,
            subscription=pull.subscription.decode(),
            expression_type=pull.expression_type.decode(),
            max_msg_bytes=pull.size_max,
        )
        pull.limits = fast_limits(self._broker, asked, pull.group_settings, pull.topic_settings)
        pull.queue_count = pull.topic_settings.read_queue_nums
        if len(self._known) >= _KNOWN_COUNT_MAX:
            self._known.clear()
        self._known[group, topic] = pull
        return pull


cdef bint _is_asked_alike(PullDecision pull, const Pulled* pulled) noexcept:
    """Whether this pull has the same fields as the one that was decided about."""
    return (
        pull.has_own_subscription == bool(pulled.sys_flag & _SUBSCRIPTION)
        and pull.count_max == pulled.count_max
        and pull.size_max == pulled.size_max
        and pull.sub_version == pulled.sub_version
        and _is_same(pull.subscription, pulled.subscription)
        and _is_same(pull.expression_type, pulled.expression_type)
    )


cdef inline bint _is_same(bytes known, Span text) noexcept:
    return PyBytes_GET_SIZE(known) == text.size and not memcmp(
        PyBytes_AS_STRING(known), text.start, <size_t>text.size
    )
