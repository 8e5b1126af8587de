# cython: boundscheck=False, wraparound=False
"""Send-backs of the fast path (36): a message of the log is stored again, for later or as a dead letter.

Taken are those of a common record, for a group with a retry topic; it waits under a delay level, or
goes to the dead letters that the group has already. What it does is what `handlers/sending.py` does.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_GET_SIZE

from roquet.broker.fast_path.header_scan cimport ScannedHeader
from roquet.broker.fast_path.reply_buffer cimport ReplyBuffer
from roquet.broker.fast_path.sends cimport Diversion, FastSends, OWN_SIZE_MAX, is_same
from roquet.broker.fast_path.sent_header cimport SentBack, read_sent_back
from roquet.protocol.binary cimport (
    Span,
    bytes_of,
    decimal_size,
    get_int32,
    get_int64,
    int64_t,
    put_bytes,
    put_decimal,
    put_int32,
    uint8_t,
)
from roquet.protocol.messages.drafts cimport Origin
from roquet.protocol.messages.record_layout cimport (
    BORN_TIMESTAMP_AT,
    FLAG_AT,
    PHYSICAL_OFFSET_AT,
    RECONSUME_TIMES_AT,
)
from roquet.protocol.messages.record_parts cimport (
    RecordParts,
    ends_in_checksum,
    has_common_layout,
    has_right_body,
    has_right_checksum,
    locate_record,
)
from roquet.protocol.messages.sent_properties cimport BACK_SIZE_MAX, put_sent_back

from random import randrange

from roquet.broker.fast_path.decisions import dead_letters_of, fast_retry_queue_count
from roquet.broker.messages.appending import FIRST_LEVEL, RETRY_COUNT_MAX
from roquet.protocol.codes import VERSION_3_4_9
from roquet.protocol.fields import NoFields
from roquet.protocol.names import SCHEDULE_TOPIC, dlq_topic, retry_topic
from roquet.protocol.templates.json_templates import reply_pieces

cdef enum:
    _IN_NO_QUEUE = 0x4
    # By what stands in a record besides the properties of its message: a topic and where it belongs.
    _ADDED_SIZE_MAX = 1_024
    _PREFIX_SIZE = 8

cdef int64_t _FIRST_LEVEL = FIRST_LEVEL
cdef int64_t _RETRY_COUNT_MAX = RETRY_COUNT_MAX
cdef int64_t _COUNT_MAX_VERSION = VERSION_3_4_9


@cython.final
cdef class GroupDecision:
    """What was decided about the send-backs of one group, and by what."""


@cython.final
cdef class FastSendBacks:
    """Those of one broker, stored by its sends, which have to `begin` and `finish` them."""

    def __init__(self, broker, FastSends sends not None):
        self._broker = broker
        self._sends = sends
        self._find_topic = broker.tables.topics.find
        self._find_group = broker.tables.groups.find
        self._statistics = broker.statistics
        self._store_host = broker.messages.store_host
        self._schedule_topic = SCHEDULE_TOPIC.encode()
        self._reply_start, self._reply_end = reply_pieces(NoFields(), None, ())
        self._is_sync = broker.messages.acks.is_awaited
        self._groups = {}

    cdef bint take(self, const ScannedHeader* header, ReplyBuffer replies) except -1:
        """Stores a message again, or leaves the request: then nothing has happened."""
        cdef SentBack back
        cdef GroupDecision group
        if self._is_sync or not read_sent_back(header, &back):
            return False
        group = self._group(back.group)
        if group is None:
            return False
        try:
            file = self._sends._appends.log.file_at(back.physical_offset)
            if file is None:
                return False
            mapping = file.mapping
        except OSError:
            # A file cannot be opened now. The slow path reports why.
            return False
        if not self._store_again(group, header, &back, mapping, file.start):
            return False
        self._answer_back(header.opaque, replies)
        return True

    cdef bint _store_again(
        self,
        GroupDecision group,
        const ScannedHeader* header,
        const SentBack* back,
        mapping,
        int64_t file_start,
    ) except -1:
        cdef Py_buffer view
        PyObject_GetBuffer(mapping, &view, PyBUF_SIMPLE)
        try:
            return self._store_from(
                group, header, back, Span(<const uint8_t*>view.buf, view.len), file_start
            )
        finally:
            PyBuffer_Release(&view)

    cdef bint _store_from(
        self,
        GroupDecision group,
        const ScannedHeader* header,
        const SentBack* back,
        Span file,
        int64_t file_start,
    ) except -1:
        """Whether a common record lies there, and may come again."""
        cdef RecordParts record
        cdef Origin origin
        cdef Diversion diversion
        cdef Span first_topic
        cdef int64_t end = min(self._sends._appends.log.end, self._sends._appends.log.confirmed_end) - file_start
        cdef int64_t position = back.physical_offset - file_start
        cdef int64_t level = back.delay_level
        cdef int64_t count_max = group.count_max
        cdef Py_ssize_t size
        cdef uint8_t* own
        if (
            not locate_record(file.start + position, min(end, file.size) - position, &record)
            or not has_common_layout(record.start)
            or get_int64(record.start + PHYSICAL_OFFSET_AT) != back.physical_offset
            or not ends_in_checksum(&record)
            or not has_right_checksum(&record)
            or not has_right_body(&record)
            or record.sys_flag & _IN_NO_QUEUE
            or not is_same(self._store_host, record.store_host)
        ):
            return False
        origin.sys_flag = record.sys_flag
        origin.born_timestamp = get_int64(record.start + BORN_TIMESTAMP_AT)
        origin.reconsume_times = get_int32(record.start + RECONSUME_TIMES_AT)
        if back.has_count_max and header.version >= _COUNT_MAX_VERSION:
            count_max = back.count_max
        if origin.reconsume_times >= count_max or level < 0:
            level = 0
            diversion = self._dead_letters(group)
            if diversion is None:
                return False
        else:
            level = min(level or _FIRST_LEVEL + origin.reconsume_times, group.level_count)
            if self._sends._appends.find(self._schedule_topic, level - 1) is None:
                return False
        if origin.reconsume_times < _RETRY_COUNT_MAX:
            origin.reconsume_times += 1
        own = self._sends.scratch.room(record.properties.size + record.topic.size + BACK_SIZE_MAX)
        size = put_sent_back(own, &record, <int>level, &first_topic)
        if (
            size < 0
            or size > OWN_SIZE_MAX
            or self._sends._appends.log.end + record.size + size + _ADDED_SIZE_MAX
            > self._sends._appends.log.used_end
        ):
            return False
        if level:
            diversion = self._retry(group, <int>level)
        self._sends._note_item(get_int32(record.start + FLAG_AT), record.body, Span(own, size))
        if not self._sends._divert(diversion, &origin, bytes_of(record.born_host)):
            return False
        self._statistics.count_send_back(group.name, bytes_of(first_topic).decode())
        return True

    cdef Diversion _retry(self, GroupDecision group, int level):
        """Into which queue of the group, is drawn when it is sure that it is stored here."""
        # Which one it is, is no secret.
        queue_id = randrange(group.queue_count)
        diversion = group.diversions.get((queue_id, level))
        if diversion is None:
            diversion = self._sends._made(group.retry_topic, queue_id, level, b"")
            group.diversions[queue_id, level] = diversion
        return diversion

    cdef Diversion _dead_letters(self, GroupDecision group):
        """None if the group has no topic for them yet, or they take the slow path."""
        if self._find_topic(group.dlq_topic) is None:
            return None
        if group.dead_letters is None:
            decided = dead_letters_of(self._broker, group.dlq_topic)
            group.dead_letters = None if decided is None else self._sends._diversion_by(decided)
        return group.dead_letters

    cdef GroupDecision _group(self, Span name):
        """What holds for it now; None if its send-backs take the slow path."""
        encoded_name = bytes_of(name)
        cdef GroupDecision group = self._groups.get(encoded_name)
        if group is None or not (
            self._broker.config is group.config
            and self._find_group(group.name) is group.settings
            and self._find_topic(group.retry_topic) is group.topic_settings
        ):
            group = self._decide_group(encoded_name)
        return group if group is not None and group.queue_count else None

    cdef GroupDecision _decide_group(self, bytes name):
        cdef GroupDecision group = GroupDecision()
        group.name = name.decode()
        group.retry_topic = retry_topic(group.name)
        group.dlq_topic = dlq_topic(group.name)
        group.config = self._broker.config
        group.settings = self._find_group(group.name)
        group.topic_settings = self._find_topic(group.retry_topic)
        if group.settings is None or group.topic_settings is None:
            # Not kept, or a stranger could fill the memory with names.
            self._groups.pop(name, None)
            return None
        group.queue_count = fast_retry_queue_count(
            group.settings, group.topic_settings, group.config
        )
        group.count_max = group.settings.retry_max_times
        group.level_count = len(group.config.store.delay_levels_ms)
        group.diversions = {}
        self._groups[name] = group
        return group

    cdef int _answer_back(self, int64_t opaque, ReplyBuffer replies) except -1:
        cdef Py_ssize_t header_size = (
            PyBytes_GET_SIZE(self._reply_start)
            + decimal_size(opaque)
            + PyBytes_GET_SIZE(self._reply_end)
        )
        cdef uint8_t* at = replies.room(_PREFIX_SIZE + header_size)
        put_int32(at, 4 + header_size)
        put_int32(at + 4, header_size)
        at = put_bytes(at + _PREFIX_SIZE, self._reply_start)
        put_bytes(put_decimal(at, opaque), self._reply_end)
        replies.add(_PREFIX_SIZE + header_size)
        return 0
