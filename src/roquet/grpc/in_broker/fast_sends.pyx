# cython: boundscheck=False, wraparound=False
"""SendMessage as most clients call it: one usual message for a topic that is there, answered at once.

What it does is what `sending.py` does, which also has the decisions, and every call that is left:
other kinds of messages, new queues, refusals, and brokers whose answers wait for a disk or a slave.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from roquet.broker.fast_path.sends cimport is_same
from roquet.broker.tables.tally cimport Tally
from roquet.grpc.http2 cimport Ending, Http2Session
from roquet.grpc.sent_message cimport SentMessage, properties_size_max, read_sent_message
from roquet.grpc.wire_format cimport (
    FIELD_HEAD_SIZE_MAX,
    NUMBER_SIZE_MAX,
    put_head,
    put_number,
    put_span,
    put_text,
)
from roquet.protocol.binary cimport (
    Span,
    bytes_of,
    crc31,
    int64_t,
    put_bytes,
    put_decimal,
    put_int32,
    span_of,
    uint8_t,
    uint64_t,
)
from roquet.protocol.messages.drafts cimport Item, Origin, RecordDraft
from roquet.protocol.messages.record_layout cimport COMPRESSED, SEPARATOR
from roquet.store.write_cursors cimport QueueCursor

from roquet.grpc.calls import HEADERS, MESSAGE_HEAD_SIZE, OK
from roquet.grpc.codes import Code, status_of
from roquet.grpc.in_broker.sending import fast_topic, turns
from roquet.grpc.outgoing import PROPERTIES_SIZE_MAX, consistent_hash, java_hash
from roquet.protocol.messages.message import Property

cdef extern from "string.h" nogil:
    void* memmem(const void* where, size_t size, const void* what, size_t what_size)

cdef enum:
    # Topics, of which honest brokers have fewer.
    _KNOWN_COUNT_MAX = 20_000

cdef Py_ssize_t _PROPERTIES_SIZE_MAX = PROPERTIES_SIZE_MAX
cdef Py_ssize_t _HEAD_SIZE = MESSAGE_HEAD_SIZE
cdef bytes _STATUS = status_of(Code.OK).SerializeToString()

cdef bytes _start_of(str name):
    return b"%c%b\x01" % (SEPARATOR, name.encode())


cdef bytes _MESSAGE_ID = _start_of(Property.UNIQUE_KEY)
cdef bytes _GROUP = _start_of(Property.PRODUCER_GROUP)
cdef bytes _BORN_TIMESTAMP = _start_of(Property.BORN_TIMESTAMP)
cdef bytes _TAGS = _start_of(Property.TAGS)
cdef bytes _KEYS = _start_of(Property.KEYS)
cdef bytes _BORN_HOST = _start_of(Property.BORN_HOST)
cdef bytes _SHARDING_KEY = _start_of(Property.SHARDING_KEY)
cdef bytes _TRACE_CONTEXT = _start_of(Property.TRACE_CONTEXT)


@cython.final
cdef class TopicDecision:
    """What was decided about the sends to one topic, and by what."""


@cython.final
cdef class FastSends:
    """Those of one broker, from whatever connection. `ending` counts them when they are over."""

    def __init__(self, broker, Ending ending not None):
        self._broker = broker
        self._find_topic = broker.tables.topics.find
        self._long_polls = broker.messages.long_polls
        self._appends = broker.store.fast_appends
        self._puts = broker.statistics.puts
        self._ending = ending
        self._headers = HEADERS
        self._trailers = OK
        self._topics = {}
        self._scratch = Scratch()

    cdef bint begin(self, bytes born_host, int64_t now_ms) except -1:
        """Whether sends can be taken that came together from there; this is their time."""
        broker = self._broker
        self._now_ms = now_ms
        self._born_host = born_host
        return (
            not broker.messages.acks.is_awaited  # Their answers wait.
            and not broker.config.is_slave
            and broker.replication.replicas.may_acknowledge()
            and not broker.messages.late_sends.is_late()
            and self._appends.is_open()
        )

    cdef bint take(self, Http2Session session, int32_t stream_id, Span request) except -1:
        """Stores and answers the message, or leaves it: then nothing has happened."""
        cdef SentMessage sent
        cdef TopicDecision topic
        cdef int64_t offset = 0
        cdef int64_t queue_id
        if not read_sent_message(request, &sent) or sent.body.size > self._appends.body_size_max:
            return False
        topic = self._topic(sent.topic)
        if topic is None or not (topic.takes_groups if sent.group.size else topic.takes_normal):
            return False
        queue_id = self._queue_id(topic, sent.group)
        if not self._append(topic, queue_id, &sent, &offset):
            return False
        turns.draw()
        session.answer(
            stream_id, self._headers, self._answer(sent.message_id, offset), self._trailers,
            self._ending,
        )
        return True

    cdef int64_t _queue_id(self, TopicDecision topic, Span group) except -1:
        if group.size:
            return consistent_hash(java_hash(bytes_of(group).decode()), topic.queue_count)
        return <int64_t>turns.number % topic.queue_count

    cdef bint _append(
        self, TopicDecision topic, int64_t queue_id, const SentMessage* sent, int64_t* offset
    ) except -1:
        """Whether there was room for it, and nothing else to decide."""
        cdef QueueCursor queue = topic.queues[queue_id]
        cdef Item item
        cdef Origin origin
        cdef int64_t physical_offset
        cdef int64_t now_ms = self._now_ms
        # A queue that was deleted has no room, either: it may be another one by now.
        if queue is None or queue.position >= queue.reserved_position:
            queue = topic.queues[queue_id] = self._appends.find(topic.encoded_name, queue_id)
            if queue is None:
                return False
        item.properties = self._properties(topic, sent)
        if item.properties.size > _PROPERTIES_SIZE_MAX or memmem(
            item.properties.start, <size_t>item.properties.size, b"__CRC32#", 8
        ):
            return False
        item.flag = 0
        item.body = sent.body
        item.body_crc = crc31(sent.body.start, sent.body.size)
        origin.queue_id = <int32_t>queue_id
        origin.sys_flag = COMPRESSED if sent.is_zipped else 0
        origin.reconsume_times = 0
        origin.born_timestamp = sent.born_ms or now_ms
        topic.draft.turn_to(&origin, self._born_host)
        item.size = topic.draft.size_of(item.body.size, item.properties)
        offset[0] = queue.max_offset
        if not self._appends.append(
            queue, topic.draft, &item, 1, now_ms, &physical_offset, NULL
        ):
            return False
        if topic.puts is None or topic.puts.is_forgotten:
            topic.puts = self._broker.statistics.topic_puts(topic.name)
        self._puts.add(1, item.size)
        topic.puts.add(1, item.size)
        self._long_polls.announce(topic.name, queue_id)
        return True

    cdef Span _properties(self, TopicDecision topic, const SentMessage* sent) except *:
        """As `stored_properties` has them, in its order."""
        cdef Py_ssize_t size = properties_size_max(sent) + PyBytes_GET_SIZE(topic.encoded_name)
        cdef uint8_t* start = self._scratch.room(size)
        cdef uint8_t* at = start
        cdef Py_ssize_t index
        for index in range(sent.user_count):
            at[0] = SEPARATOR
            at = _put_text(at + 1, sent.names[index])
            at[0] = 1
            at = _put_text(at + 1, sent.values[index])
        at = _put_property(at, _MESSAGE_ID, sent.message_id)
        at = _put_property(at, _GROUP, span_of(topic.encoded_name))
        at = put_decimal(put_bytes(at, _BORN_TIMESTAMP), sent.born_ms)
        at = _put_property(at, _TAGS, sent.tag)
        if sent.key_count:
            at = put_bytes(at, _KEYS)
            for index in range(sent.key_count):
                if index:
                    at[0] = c" "
                    at += 1
                at = _put_text(at, sent.keys[index])
        at = _put_property(at, _BORN_HOST, sent.born_host)
        at = _put_property(at, _SHARDING_KEY, sent.group)
        at = _put_property(at, _TRACE_CONTEXT, sent.trace_context)
        return Span(start + 1, at - start - 1)

    cdef bytes _answer(self, Span message_id, int64_t offset):
        """A SendMessageResponse with one entry, as it goes into DATA."""
        cdef Span status = span_of(_STATUS)
        cdef Py_ssize_t size = (
            _HEAD_SIZE + 2 * status.size + message_id.size
            + 4 * FIELD_HEAD_SIZE_MAX + NUMBER_SIZE_MAX
        )
        cdef uint8_t* end = self._scratch.room(size) + size
        cdef uint8_t* at = end
        if offset:
            at = put_number(at, 4, <uint64_t>offset)
        at = put_text(at, 2, message_id)
        at = put_text(at, 1, status)
        at = put_text(put_head(at, 2, end), 1, status)
        size = end - at
        at -= _HEAD_SIZE
        at[0] = 0
        put_int32(at + 1, size)
        return PyBytes_FromStringAndSize(<const char*>at, end - at)

    # Topics

    cdef TopicDecision _topic(self, Span name):
        """What holds for it now; None if sends to it are left."""
        cdef TopicDecision topic = self._last_topic
        if topic is None or not is_same(topic.encoded_name, name):
            topic = self._topics.get(bytes_of(name))
        if (
            topic is None
            or self._broker.config is not topic.config
            or self._find_topic(topic.name) is not topic.settings
        ):
            topic = self._decide(bytes_of(name))
        self._last_topic = topic
        return topic

    cdef TopicDecision _decide(self, bytes name):
        cdef TopicDecision topic = TopicDecision()
        decided = fast_topic(self._broker, name.decode())
        if decided is None:
            # Not kept, or a stranger could fill the memory with names.
            self._topics.pop(name, None)
            return None
        topic.encoded_name = name
        topic.name = decided.settings.topic_name
        topic.config = self._broker.config
        topic.settings = decided.settings
        topic.queue_count = decided.settings.write_queue_nums
        topic.takes_normal = decided.takes_normal
        topic.takes_groups = decided.takes_groups
        topic.draft = decided.draft
        topic.queues = [None] * topic.queue_count
        if len(self._topics) >= _KNOWN_COUNT_MAX:
            self._topics.clear()
        self._topics[name] = topic
        return topic


cdef inline uint8_t* _put_text(uint8_t* at, Span text) noexcept:
    return put_span(at + text.size, text) + text.size


cdef inline uint8_t* _put_property(uint8_t* at, bytes start, Span value) noexcept:
    """Unless it has no value."""
    return _put_text(put_bytes(at, start), value) if value.size else at
