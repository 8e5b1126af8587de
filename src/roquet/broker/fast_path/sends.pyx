# cython: boundscheck=False, wraparound=False
"""Sends of the fast path (310, 10) and batches (320): from a header that was scanned to messages that are stored.

Taken are sends to a topic that exists, into a queue that has room, without a property that asks
for more than to be stored; and those that ask for a delay level or start a transaction, which are
stored elsewhere with some properties more. What it does is what `handlers/sending.py` does.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.string cimport memcmp

from roquet.broker.fast_path.header_scan cimport ScannedHeader, unescape
from roquet.broker.fast_path.reply_buffer cimport ReplyBuffer
from roquet.broker.fast_path.sent_header cimport Sent, read_sent
from roquet.broker.tables.tally cimport Tally
from roquet.protocol.binary cimport (
    Span,
    bytes_of,
    crc31,
    int32_t,
    int64_t,
    uint8_t,
)
from roquet.protocol.messages.drafts cimport Item, Origin, RecordDraft
from roquet.protocol.messages.record_batches cimport count_items, read_item
from roquet.protocol.messages.sent_properties cimport WANTS_MORE, WANTS_TRANSACTION, put_stored, want_of
from roquet.store.write_cursors cimport QueueCursor

from roquet.broker.fast_path.decisions import (
    added_flags,
    diversion_of,
    draft_of_batches,
    draft_of_sends,
    fast_queue_count,
)
from roquet.protocol.messages.batch import BATCH_COUNT_MAX

cdef extern from "string.h" nogil:
    void* memmem(const void* where, size_t size, const void* what, size_t what_size)

cdef enum:
    _TRANSACTION_MASK = 0xC

cdef Py_ssize_t _BATCH_COUNT_MAX = BATCH_COUNT_MAX


@cython.final
cdef class Diversion:
    """What was decided about messages of one queue that wait for one thing."""


@cython.final
cdef class TopicDecision:
    """What was decided about the sends to one topic, and by what."""


@cython.final
cdef class FastSends:
    """Those of one broker, from whatever connection."""

    def __init__(self, broker):
        self._broker = broker
        self._find_topic = broker.tables.topics.find
        self._statistics = broker.statistics
        self._puts = broker.statistics.puts
        self._long_polls = broker.messages.long_polls
        self._appends = broker.store.fast_appends
        self._reply = broker.messages.send_reply
        self._is_sync = broker.messages.acks.is_awaited
        self._topics = {}
        self.scratch = Scratch()

    def __dealloc__(self):
        PyMem_Free(self._items)
        PyMem_Free(self._stored.physical_offsets)

    cdef bint is_open(self) except -1:
        """Whether messages are stored at all."""
        return self._appends.is_open()

    cdef int begin(self, bytes born_host, int64_t now_ms) except -1:
        """Sends come, from there and at this time."""
        self._born_host = born_host
        self._now_ms = now_ms
        return 0

    cdef bint take(self, const ScannedHeader* header, Span body, ReplyBuffer replies) except -1:
        """Stores and answers the send, or leaves it: then nothing has happened."""
        cdef Sent sent
        cdef TopicDecision topic
        cdef QueueCursor queue
        cdef RecordDraft draft
        if not read_sent(header, &sent) or body.size > self._appends.body_size_max:
            return False
        topic = self._topic(sent.topic)
        if topic is None:
            return False
        if sent.origin.queue_id >= topic.queue_count:
            return False
        sent.origin.sys_flag |= topic.added_flags
        draft = None
        if sent.origin.sys_flag & _TRANSACTION_MASK == 0:
            if sent.is_batch:
                draft = self._read_batch(topic, &sent, body)
            else:
                draft = self._read_one(topic, &sent, body)
        if draft is None:
            return not sent.is_batch and self._take_diverted(topic, header, &sent, body, replies)
        queue = self._queue(topic, sent.origin.queue_id)
        if queue is None or not self._append(queue, draft, &sent.origin, self._born_host, NULL):
            return False
        if topic.puts is None or topic.puts.is_forgotten:
            topic.puts = self._statistics.topic_puts(topic.name)
        self._count(topic.puts)
        self._announce(topic.name, sent.origin.queue_id)
        self._answer(header, replies)
        return True

    cdef bint _append(
        self,
        QueueCursor queue,
        RecordDraft draft,
        const Origin* origin,
        bytes born_host,
        const int64_t* code,
    ) except -1:
        """Whether there was room for the items."""
        draft.turn_to(origin, born_host)
        for index in range(self._stored.count):
            self._items[index].size = draft.size_of(
                self._items[index].body.size, self._items[index].properties
            )
        self._stored.queue_id = origin.queue_id
        self._stored.queue_offset = queue.max_offset
        return self._appends.append(
            queue,
            draft,
            self._items,
            self._stored.count,
            self._now_ms,
            self._stored.physical_offsets,
            code,
        )

    cdef int _answer(self, const ScannedHeader* header, ReplyBuffer replies) except -1:
        at = replies.room(self._reply.size_of(header.opaque, &self._stored))
        replies.add(self._reply.put(at, header.opaque, &self._stored) - at)
        return 0

    cdef int64_t finish(self) except -1:
        """All sends of a wake-up are stored; where in the log the last of them ends."""
        self._appends.want_flush()
        return self._appends.log.end

    # Messages that wait: see `delays/postponing.py` and `transactions/phases.py`.

    cdef bint _take_diverted(
        self,
        TopicDecision topic,
        const ScannedHeader* header,
        Sent* sent,
        Span body,
        ReplyBuffer replies,
    ) except -1:
        """Stores and answers a send that wants one thing more, or leaves it."""
        cdef uint8_t* own = self.scratch.room(sent.properties.size + 1)
        cdef Span properties = Span(own, unescape(sent.properties, own))
        cdef int want = want_of(properties)
        cdef int32_t queue_id = sent.origin.queue_id
        cdef Diversion diversion
        if (
            self._is_sync  # It is followed up when it is safe.
            or want == WANTS_MORE
            or properties.size > OWN_SIZE_MAX
            or (want != WANTS_TRANSACTION and sent.origin.sys_flag & _TRANSACTION_MASK)
        ):
            return False
        diversion = self._diversion(topic, queue_id, want)
        if diversion is None:
            return False
        self._note_item(<int32_t>sent.flag, body, properties)
        sent.origin.sys_flag &= ~_TRANSACTION_MASK
        if not self._divert(diversion, &sent.origin, self._born_host):
            return False
        # The reply names the queue that was asked for.
        self._stored.queue_id = queue_id
        self._answer(header, replies)
        return True

    cdef bint _divert(self, Diversion diversion, Origin* origin, bytes born_host) except -1:
        """Stores the item where it waits; False without room: no change."""
        cdef int64_t code
        cdef bint is_stored
        if diversion.queue is None or diversion.queue.position >= diversion.queue.reserved_position:
            diversion.queue = self._appends.find(diversion.encoded_topic, diversion.queue_id)
            if diversion.queue is None:
                return False
        origin.queue_id = diversion.queue_id
        if diversion.delay_ms is None:
            is_stored = self._append(diversion.queue, diversion.draft, origin, born_host, NULL)
        else:
            self._broker.waiting.delays.check_clock()
            code = self._now_ms + <int64_t>diversion.delay_ms
            is_stored = self._append(diversion.queue, diversion.draft, origin, born_host, &code)
        if not is_stored:
            return False
        if diversion.puts is None or diversion.puts.is_forgotten:
            diversion.puts = self._statistics.topic_puts(diversion.topic)
        self._count(diversion.puts)
        self._announce(diversion.topic, diversion.queue_id)
        diversion.follow_up(self._stored.queue_offset, self._now_ms, self._appends.log.end)
        return True

    cdef Diversion _diversion(self, TopicDecision topic, Py_ssize_t queue_id, int want):
        """None if such messages take the slow path."""
        cdef Diversion diversion = topic.diversions.get((queue_id, want))
        if diversion is None:
            level = 0 if want == WANTS_TRANSACTION else want
            diversion = self._made(
                topic.name, queue_id, level, self._broker.messages.cluster_property
            )
            if diversion is not None:
                topic.diversions[queue_id, want] = diversion
        return diversion

    cdef Diversion _made(self, str topic, Py_ssize_t queue_id, int level, bytes added):
        decided = diversion_of(self._broker, topic, queue_id, level, added)
        return None if decided is None else self._diversion_by(decided)

    cdef Diversion _diversion_by(self, decided):
        cdef Diversion diversion = Diversion()
        diversion.topic = decided.topic
        diversion.encoded_topic = decided.topic.encode()
        diversion.queue_id = decided.queue_id
        diversion.draft = decided.draft
        diversion.delay_ms = decided.delay_ms
        diversion.follow_up = decided.follow_up
        return diversion

    # Topics and their queues

    cdef TopicDecision _topic(self, Span name):
        """What holds for it now; None if sends to it take the slow path."""
        cdef TopicDecision topic = self._last_topic
        if topic is None or not is_same(topic.encoded_name, name):
            encoded_name = bytes_of(name)
            topic = self._topics.get(encoded_name)
            if topic is None:
                topic = self._decide(encoded_name)
        if topic is not None and (
            self._broker.config is not topic.config
            or self._find_topic(topic.name) is not topic.settings
        ):
            topic = self._decide(topic.encoded_name)
        self._last_topic = topic
        return topic if topic is not None and topic.queue_count else None

    cdef TopicDecision _decide(self, bytes name):
        cdef TopicDecision topic = TopicDecision()
        topic.encoded_name = name
        topic.name = name.decode()
        topic.config = self._broker.config
        topic.settings = self._find_topic(topic.name)
        if topic.settings is None:
            # Not kept, or a stranger could fill the memory with names.
            self._topics.pop(name, None)
            return None
        topic.queue_count = fast_queue_count(topic.settings, topic.config)
        topic.added_flags = added_flags(topic.settings)
        topic.draft = draft_of_sends(self._broker, topic.settings)
        topic.queues = [None] * topic.queue_count
        topic.diversions = {}
        self._topics[name] = topic
        return topic

    cdef QueueCursor _queue(self, TopicDecision topic, Py_ssize_t queue_id):
        """None if it does not exist yet, or has no room."""
        cdef QueueCursor queue
        queue = topic.queues[queue_id]
        # A queue that was deleted has no room, either: it may be another one by now.
        if queue is None or queue.position >= queue.reserved_position:
            queue = self._appends.find(topic.encoded_name, queue_id)
            topic.queues[queue_id] = queue
        return queue

    # What is to be stored. Both of these note the items down, without the sizes of their records.

    cdef RecordDraft _read_one(self, TopicDecision topic, const Sent* sent, Span body):
        """The draft for the message; None if it takes the slow path."""
        cdef uint8_t* own = self.scratch.room(sent.properties.size + 1)
        cdef Py_ssize_t size = unescape(sent.properties, own)
        if self._is_sync and memmem(own, <size_t>size, b"WAIT\x01false", 10):
            return None
        size = put_stored(own, Span(own, size))
        if size < 0 or size > OWN_SIZE_MAX or _has_checksum(Span(own, size)):
            return None
        self._note_item(<int32_t>sent.flag, body, Span(own, size))
        return topic.draft

    cdef int _note_item(self, int32_t flag, Span body, Span properties) except -1:
        self._grow_items(1)
        self._items[0].flag = flag
        self._items[0].body = body
        self._items[0].body_crc = crc31(body.start, body.size)
        self._items[0].properties = properties
        self._stored.count = 1
        return 0

    cdef RecordDraft _read_batch(self, TopicDecision topic, const Sent* sent, Span body):
        """The draft for the messages of a batch; None if they take the slow path."""
        cdef Py_ssize_t count = count_items(body)
        cdef Span own
        cdef const uint8_t* at = body.start
        if not 0 < count <= _BATCH_COUNT_MAX:
            return None
        self._grow_items(count)
        for index in range(count):
            at = read_item(at, &self._items[index])
            own = self._items[index].properties
            if own.size > OWN_SIZE_MAX or _has_checksum(own):
                return None
        self._stored.count = count
        return self._batch_draft(topic, sent.properties)

    cdef RecordDraft _batch_draft(self, TopicDecision topic, Span sent):
        cdef uint8_t* text
        if topic.batch_draft is None or not is_same(topic.shared, sent):
            text = self.scratch.room(sent.size + 1)
            shared = text[: unescape(sent, text)].decode()
            topic.batch_draft = draft_of_batches(self._broker, topic.settings, shared)
            topic.shared = bytes_of(sent)
        return topic.batch_draft

    # What follows from a message: see `messages/appending.py`.

    cdef int _count(self, Tally puts) except -1:
        cdef int64_t size = self._appends.log.end - self._stored.physical_offsets[0]
        self._puts.add(self._stored.count, size)
        puts.add(self._stored.count, size)
        return 0

    cdef int _announce(self, str topic, int32_t queue_id) except -1:
        if self._is_sync:
            self._long_polls.announce_when_safe(topic, queue_id, self._appends.log.end)
        else:
            self._long_polls.announce(topic, queue_id)
        return 0

    # Room

    cdef int _grow_items(self, Py_ssize_t count) except -1:
        cdef void* items
        cdef void* offsets
        if count > self._item_capacity:
            items = PyMem_Realloc(self._items, 2 * count * sizeof(Item))
            if items is NULL:
                raise MemoryError
            self._items = <Item*>items
            offsets = PyMem_Realloc(self._stored.physical_offsets, 2 * count * sizeof(int64_t))
            if offsets is NULL:
                raise MemoryError
            self._stored.physical_offsets = <int64_t*>offsets
            self._item_capacity = 2 * count
        return 0


cdef inline bint _has_checksum(Span properties) noexcept:
    """Whether one came along, or what looks like it: it would belong to another record."""
    return memmem(properties.start, <size_t>properties.size, b"__CRC32#", 8) is not NULL
