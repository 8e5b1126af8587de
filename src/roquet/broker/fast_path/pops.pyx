# cython: boundscheck=False, wraparound=False
"""Pops of the fast path (200050): from a header that was scanned to messages that are there.

Taken are pops of everything, by tags or by SQL92, of one queue or of all, that find messages while
nothing has come again. What is popped is noted by the journal, as by `pop/popping.py`, which
has all other cases: ordered pops, retries, pops that wait, and groups that are new to a queue.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcmp

from roquet.broker.fast_path.header_scan cimport ScannedHeader
from roquet.broker.fast_path.popped_header cimport Popped, read_popped
from roquet.protocol.binary cimport (
    Span,
    bytes_of,
    get_int32,
    get_int64,
    int64_t,
    put_decimal,
    uint8_t,
)
from roquet.protocol.decimals cimport put_decimals
from roquet.protocol.messages.record_layout cimport QUEUE_OFFSET_AT
from roquet.protocol.scratch cimport Scratch
from roquet.protocol.templates.pop_reply cimport PopReply, popped_header
from roquet.store.reading.fast_reads cimport QueueBounds
from roquet.store.reading.gathering cimport Gathering

from roquet.broker.fast_path.decisions import fast_pop_filter
from roquet.broker.pop.first_queue import first_of
from roquet.broker.pop.in_flight import PopKey, QueueOfGroup
from roquet.broker.pop.journal import POP_COUNT_MAX
from roquet.broker.pop.journal_writing import JOURNAL_QUEUE_ID
from roquet.broker.pop.popping import INIT_MIN, LATE_MS_MAX, retry_topics
from roquet.net.errors import Refused
from roquet.store.reading.queue_reading import QueueReadLimits

cdef enum:
    _ANY_QUEUE = -1
    # Kind, queue and number, with what is between them.
    _ENTRY_SIZE_MAX = 48
    _NUMBER_SIZE_MAX = 21
    # Groups times topics, of which honest brokers have fewer.
    _KNOWN_COUNT_MAX = 20_000
    # What a look at a queue leads to.
    _DONE = 0
    _LEFT = 1

cdef int64_t _COUNT_MAX = POP_COUNT_MAX
cdef int64_t _LATE_MS_MAX = LATE_MS_MAX
cdef int64_t _INIT_MIN = INIT_MIN
cdef int64_t _JOURNAL_QUEUE_ID = JOURNAL_QUEUE_ID


@cython.final
cdef class PopDecision:
    """What was decided about the pops of one group from one topic, and by what."""


@cython.final
cdef class PoppedBatch:
    """Messages of one queue that a pop takes."""


@cython.final
cdef class FastPops:
    """Those of one broker, from whatever connection."""

    def __init__(self, broker):
        self._broker = broker
        self._clock = broker.clock
        self._find_topic = broker.tables.topics.find
        self._find_group = broker.tables.groups.find
        self._offsets = broker.tables.offsets
        self._resets = broker.tables.offsets.resets
        self._statistics = broker.statistics
        self._gets = broker.statistics.gets
        self._store = broker.store
        self._reads = broker.store.fast_reads
        self._journal = broker.waiting.pops
        self._first_queue = broker.waiting.first_queue
        self._is_sync = broker.messages.acks.is_awaited
        self._known = {}
        self._scratch = Scratch()

    cdef Py_ssize_t take(self, const ScannedHeader* header, list replies) except -2:
        """How many bytes answer it; -1 if it is left: then nothing has happened."""
        cdef Popped popped
        cdef PopDecision pop
        cdef int64_t now_ms
        cdef Py_ssize_t size = -1
        if (
            self._is_sync  # Its reply has to wait for the disk.
            or self._resets
            or not read_popped(header, &popped)
            or popped.is_ordered
            or not 1 <= popped.count_max <= _COUNT_MAX
            or popped.invisible_ms < 0
        ):
            return -1
        self._notes = self._journal.fast
        if self._notes is None:
            return -1
        now_ms = self._clock.now_ms()
        if popped.born_ms and now_ms - popped.born_ms - popped.poll_ms > _LATE_MS_MAX:
            return -1
        pop = self._pop(&popped)
        if pop is None or not _ANY_QUEUE <= popped.queue_id < pop.queue_count:
            return -1
        self._batches = []
        try:
            if self._plan(pop, &popped, now_ms) and self._hand_out(
                pop, popped.invisible_ms, now_ms
            ):
                size = self._answer(pop, &popped, header.opaque, now_ms, replies)
        finally:
            self._batches = None
        return size

    cdef bint _plan(self, PopDecision pop, const Popped* popped, int64_t now_ms) except -1:
        """Whether everything that it looks at leaves nothing to decide; finds what to take."""
        cdef int64_t first = popped.queue_id
        cdef int64_t count = 1
        cdef int64_t index, queue_id
        self._rest_count = 0
        self._count_left = popped.count_max
        self._size_left = pop.size_max
        if self._has_retries(pop):
            return False
        offsets = self._offsets.queues(pop.group, pop.topic)
        if popped.queue_id == _ANY_QUEUE:
            count = pop.queue_count
            first = first_of(self._first_queue.number, count) if count else 0
        for index in range(first, first + count):
            queue_id = index % pop.queue_count
            if self._look_at(pop, popped, queue_id, offsets.get(queue_id), now_ms) == _LEFT:
                return False
        return len(self._batches) > 0

    cdef bint _has_retries(self, PopDecision pop) except -1:
        """Whether there may be messages of the group that came again."""
        cdef QueueBounds bounds
        cdef int64_t queue_id
        for topic in pop.retry_topics:
            settings = self._find_topic(topic)
            if settings is None:
                continue
            offsets = self._offsets.queues(pop.group, topic)
            for queue_id in range(<int64_t>settings.read_queue_nums):
                known = offsets.get(queue_id)
                self._reads.find_bounds(topic.encode(), queue_id, &bounds)
                if known is None or known != bounds.max_offset:
                    return True
        return False

    cdef int _look_at(
        self, PopDecision pop, const Popped* popped, int64_t queue_id, known, int64_t now_ms
    ) except -1:
        """What `Popping` does with one queue, without doing it; the group is at `known`."""
        cdef QueueBounds bounds
        cdef PoppedBatch batch
        if not self._count_left or self._size_left <= 0:
            self._reads.find_bounds(pop.encoded_topic, queue_id, &bounds)
            self._rest_count += max(0, bounds.max_offset - <int64_t>(known or 0))
            return _DONE
        if known is None:
            # One that has no messages is as it was, after a look at it.
            if popped.init_mode != _INIT_MIN or self._store.end_offset(pop.topic, queue_id):
                return _LEFT
            return _DONE if self._has_room(pop, queue_id) else _LEFT
        limits = pop.limits.get(self._count_left)
        if limits is None or self._batches:
            limits = QueueReadLimits(self._count_left, self._size_left, *pop.wanted)
            if not self._batches:
                pop.limits[self._count_left] = limits
        batch = self._found(pop, queue_id, known, limits, now_ms)
        if batch is not None:
            batch.rest_count = self._rest_count
            self._batches.append(batch)
            self._count_left -= batch.count
            self._size_left -= PyBytes_GET_SIZE(batch.body)
            return _DONE
        self._reads.find_bounds(pop.encoded_topic, queue_id, &bounds)
        return _LEFT if known != bounds.max_offset else _DONE

    cdef bint _has_room(self, PopDecision pop, int64_t queue_id) except -1:
        """For one more offset."""
        try:
            self._offsets.check_room(pop.group, pop.topic, queue_id)
        except Refused:
            return False
        return True

    cdef PoppedBatch _found(
        self, PopDecision pop, int64_t queue_id, int64_t start, object limits, int64_t now_ms
    ):
        """None if nothing usual is there, or its key is in use."""
        cdef QueueBounds bounds
        cdef PoppedBatch batch
        cdef Gathering found = self._reads.find(
            pop.encoded_topic, queue_id, start, limits, &bounds
        )
        if found is None:
            return None
        batch = PoppedBatch()
        batch.queue_id = queue_id
        batch.start = start
        batch.next_offset = found.offset
        batch.count = found.count
        batch.body = found.whole_body()
        batch.first = _offset_of(PyBytes_AS_STRING(batch.body))
        queue = pop.queues.get(queue_id)
        if queue is None:
            queue = pop.queues[queue_id] = QueueOfGroup(pop.group, pop.topic, queue_id)
        batch.key = PopKey(queue, batch.first, now_ms)
        if self._notes.in_flight.find(batch.key) is not None:
            return None
        batch.offsets = _offsets_in(batch)
        self._rest_count += max(0, bounds.max_offset - found.offset)
        return batch

    cdef bint _hand_out(self, PopDecision pop, int64_t invisible_ms, int64_t now_ms) except -1:
        """Whether any of it is out now."""
        cdef PoppedBatch batch
        cdef Py_ssize_t index
        for index in range(len(self._batches)):
            batch = self._batches[index]
            try:
                self._note(batch, invisible_ms, now_ms)
            except Refused:
                # What is out already is answered. Refused without any, it is so once more.
                self._rest_count = batch.rest_count
                del self._batches[index:]
                break
            if batch.next_offset != batch.start:
                self._offsets.commit(pop.group, pop.topic, batch.queue_id, batch.next_offset)
        return len(self._batches) > 0

    cdef int _note(self, PoppedBatch batch, int64_t invisible_ms, int64_t now_ms) except -1:
        key, offsets, next_offset = batch.key, batch.offsets, batch.next_offset
        if self._notes.note_pop(key, offsets, invisible_ms, next_offset, now_ms) < 0:
            self._journal.note_pop(key, offsets, invisible_ms, next_offset)
        return 0

    cdef Py_ssize_t _answer(
        self,
        PopDecision pop,
        const Popped* popped,
        int64_t opaque,
        int64_t now_ms,
        list replies,
    ) except -2:
        cdef PopReply reply
        cdef PoppedBatch batch
        cdef Py_ssize_t count = 0
        cdef Py_ssize_t size = 0
        cdef uint8_t* at
        cdef bytes head
        self._first_queue.draw()
        for batch in self._batches:
            count += batch.count
            size += PyBytes_GET_SIZE(batch.body)
        at = self._scratch.room(2 * len(self._batches) * _ENTRY_SIZE_MAX + count * _NUMBER_SIZE_MAX)
        reply.starts.start = at
        at = _put_starts(at, self._batches)
        reply.starts.size = at - reply.starts.start
        reply.offsets.start = at
        reply.offsets.size = _put_offsets(at, self._batches) - at
        reply.pop_time_ms = now_ms
        reply.invisible_ms = popped.invisible_ms
        reply.revive_queue_id = _JOURNAL_QUEUE_ID
        reply.rest_count = self._rest_count
        reply.opaque = opaque
        if pop.gets is None or pop.gets.is_forgotten:
            pop.gets = self._statistics.group_gets(pop.group, pop.topic)
        self._gets.add(count, size)
        pop.gets.add(count, size)
        head = popped_header(&reply, size)
        # Not joined: many bytes are copied only once, when all replies are.
        replies.append(head)
        for batch in self._batches:
            replies.append(batch.body)
        return PyBytes_GET_SIZE(head) + size

    cdef PopDecision _pop(self, const Popped* popped):
        """What holds for it now; None if it takes the slow path."""
        key = bytes_of(popped.group), bytes_of(popped.topic)
        cdef PopDecision pop = self._known.get(key)
        if (
            pop is None
            or self._broker.config is not pop.config
            or self._find_group(pop.group) is not pop.group_settings
            or self._find_topic(pop.topic) is not pop.topic_settings
            or not _is_same(pop.expression, popped.expression)
            or not _is_same(pop.expression_type, popped.expression_type)
        ):
            pop = self._decide(key[0], key[1], popped)
        return pop if pop is not None and pop.wanted is not None else None

    cdef PopDecision _decide(self, bytes group, bytes topic, const Popped* popped):
        cdef PopDecision pop = PopDecision()
        pop.encoded_group = group
        pop.encoded_topic = topic
        pop.group = group.decode()
        pop.topic = topic.decode()
        pop.config = self._broker.config
        pop.group_settings = self._find_group(pop.group)
        pop.topic_settings = self._find_topic(pop.topic)
        if pop.group_settings is None or pop.topic_settings is None:
            # Not kept, or a stranger could fill the memory with names.
            self._known.pop((group, topic), None)
            return None
        pop.expression = bytes_of(popped.expression)
        pop.expression_type = bytes_of(popped.expression_type)
        pop.queue_count = pop.topic_settings.read_queue_nums
        pop.size_max = pop.config.store.read_size_max_in_memory
        pop.retry_topics = retry_topics(pop.config, pop.group, pop.topic)
        pop.limits = {}
        pop.queues = {}
        pop.wanted = fast_pop_filter(
            self._broker,
            (pop.expression.decode(), pop.expression_type.decode() or None),
            pop.group_settings,
            pop.topic_settings,
        )
        if len(self._known) >= _KNOWN_COUNT_MAX:
            self._known.clear()
        self._known[group, topic] = pop
        return pop


cdef inline int64_t _offset_of(const char* record) noexcept:
    return get_int64(<const uint8_t*>record + QUEUE_OFFSET_AT)


cdef object _offsets_in(PoppedBatch batch):
    """Of messages that were found, which are in the order of the queue."""
    cdef const char* at = PyBytes_AS_STRING(batch.body)
    cdef list offsets
    cdef Py_ssize_t index
    if batch.next_offset - batch.first == batch.count:
        return range(batch.first, batch.next_offset)  # Nothing between them was left out.
    offsets = []
    for index in range(batch.count):
        offsets.append(_offset_of(at))
        at += get_int32(<const uint8_t*>at)
    return offsets


# The texts of a reply, as `pop/receipts.py` has them.

cdef uint8_t* _put_starts(uint8_t* at, list batches) except NULL:
    cdef PoppedBatch batch
    cdef Py_ssize_t index
    for index in range(len(batches)):
        batch = batches[index]
        at = put_decimal(_put_queue(at, batch.queue_id, index), batch.first)
    return at


cdef uint8_t* _put_offsets(uint8_t* at, list batches) except NULL:
    cdef PoppedBatch batch
    cdef Py_ssize_t index, number
    cdef const char* record
    for index in range(len(batches)):
        batch = batches[index]
        at = _put_queue(at, batch.queue_id, index)
        if batch.next_offset - batch.first == batch.count:
            at = put_decimals(at, batch.first, batch.count)
            continue
        record = PyBytes_AS_STRING(batch.body)
        for number in range(batch.count):
            if number:
                at[0] = b","
                at += 1
            at = put_decimal(at, _offset_of(record))
            record += get_int32(<const uint8_t*>record)
    return at


cdef inline uint8_t* _put_queue(uint8_t* at, int64_t queue_id, Py_ssize_t index) noexcept:
    """Of the topic itself: none of its retries."""
    if index:
        at[0] = b";"
        at += 1
    at[0] = b"0"
    at[1] = b" "
    at = put_decimal(at + 2, queue_id)
    at[0] = b" "
    return at + 1


cdef inline bint _is_same(bytes known, Span text) noexcept:
    return PyBytes_GET_SIZE(known) == text.size and not memcmp(
        PyBytes_AS_STRING(known), text.start, <size_t>text.size
    )
