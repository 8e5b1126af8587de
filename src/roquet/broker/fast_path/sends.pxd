from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcmp

from roquet.broker.fast_path.header_scan cimport ScannedHeader
from roquet.broker.fast_path.reply_buffer cimport ReplyBuffer
from roquet.broker.fast_path.sent_header cimport Sent
from roquet.broker.tables.tally cimport Tally
from roquet.protocol.binary cimport Span, int32_t, int64_t
from roquet.protocol.messages.drafts cimport Item, Origin, RecordDraft
from roquet.protocol.scratch cimport Scratch
from roquet.protocol.templates.send_reply cimport SendReplyTemplate, Stored
from roquet.store.fast_appends cimport FastAppends
from roquet.store.write_cursors cimport QueueCursor

cdef enum:
    # Of the properties of one message. The rest is for what the broker adds.
    OWN_SIZE_MAX = 16_384


cdef class Diversion:
    # Where messages of a topic go that wait for a time or for the end of their transaction.
    cdef str topic
    cdef bytes encoded_topic
    cdef int32_t queue_id
    cdef RecordDraft draft
    # None for those that have no time.
    cdef object delay_ms
    # What follows, by the offset of the message, its store timestamp and the end of the log.
    cdef object follow_up
    # Looked up once.
    cdef QueueCursor queue
    cdef Tally puts


cdef class TopicDecision:
    # What was decided by, and may be replaced.
    cdef object settings, config
    cdef str name
    cdef bytes encoded_name
    # What was decided.
    cdef Py_ssize_t queue_count
    cdef int added_flags
    cdef RecordDraft draft
    # The same for batches with these properties, as JSON has them.
    cdef bytes shared
    cdef RecordDraft batch_draft
    # Looked up once.
    cdef list queues
    cdef Tally puts
    # By queue and what is wanted.
    cdef dict diversions


cdef class FastSends:
    cdef object _broker, _find_topic, _statistics, _long_polls
    cdef FastAppends _appends
    cdef SendReplyTemplate _reply
    cdef Tally _puts
    cdef bint _is_sync
    # Of the sends of one wake-up.
    cdef bytes _born_host
    cdef int64_t _now_ms
    cdef dict _topics
    cdef TopicDecision _last_topic
    cdef Item* _items
    cdef Stored _stored
    cdef Py_ssize_t _item_capacity
    cdef Scratch scratch

    cdef bint is_open(self) except -1
    cdef int begin(self, bytes born_host, int64_t now_ms) except -1
    cdef bint take(self, const ScannedHeader* header, Span body, ReplyBuffer replies) except -1
    cdef int64_t finish(self) except -1
    cdef TopicDecision _topic(self, Span name)
    cdef TopicDecision _decide(self, bytes name)
    cdef QueueCursor _queue(self, TopicDecision topic, Py_ssize_t queue_id)
    cdef bint _take_diverted(
        self,
        TopicDecision topic,
        const ScannedHeader* header,
        Sent* sent,
        Span body,
        ReplyBuffer replies,
    ) except -1
    cdef Diversion _diversion(self, TopicDecision topic, Py_ssize_t queue_id, int want)
    cdef bint _divert(self, Diversion diversion, Origin* origin, bytes born_host) except -1
    cdef Diversion _made(self, str topic, Py_ssize_t queue_id, int level, bytes added)
    cdef Diversion _diversion_by(self, decided)
    cdef bint _append(
        self,
        QueueCursor queue,
        RecordDraft draft,
        const Origin* origin,
        bytes born_host,
        const int64_t* code,
    ) except -1
    cdef int _answer(self, const ScannedHeader* header, ReplyBuffer replies) except -1
    cdef int _note_item(self, int32_t flag, Span body, Span properties) except -1
    cdef RecordDraft _read_one(self, TopicDecision topic, const Sent* sent, Span body)
    cdef RecordDraft _read_batch(self, TopicDecision topic, const Sent* sent, Span body)
    cdef RecordDraft _batch_draft(self, TopicDecision topic, Span sent)
    cdef int _announce(self, str topic, int32_t queue_id) except -1
    cdef int _count(self, Tally puts) except -1
    cdef int _grow_items(self, Py_ssize_t count) except -1


cdef inline bint is_same(bytes known, Span text) noexcept:
    return PyBytes_GET_SIZE(known) == text.size and not memcmp(
        PyBytes_AS_STRING(known), text.start, <size_t>text.size
    )
