"""Numbers of the record that `record.py` draws, for compiled code."""

cdef enum:
    MAGIC_V1 = -626843481
    MAGIC_V2 = -626843477
    TOPIC_SIZE_MAX_V1 = 127
    TOPIC_SIZE_MAX_V2 = 32767
    PROPERTIES_SIZE_MAX = 32767
    BODY_SIZE_MAX = 1 << 30

    # Where the members lie. What comes after a long host lies this much further on.
    LONG_HOST_SHIFT = 12
    MAGIC_AT = 4
    BODY_CRC_AT = 8
    QUEUE_ID_AT = 12
    FLAG_AT = 16
    QUEUE_OFFSET_AT = 20
    PHYSICAL_OFFSET_AT = 28
    SYS_FLAG_AT = 36
    BORN_TIMESTAMP_AT = 40
    BORN_HOST_AT = 48
    STORE_TIMESTAMP_AT = 56
    STORE_HOST_AT = 64
    RECONSUME_TIMES_AT = 72
    PREPARED_OFFSET_AT = 76
    BODY_SIZE_AT = 84
    BODY_AT = 88
    PROPERTIES_SIZE_WIDTH = 2
    # With a body, a topic and properties of no bytes.
    RECORD_SIZE_MIN = 91

    # Of the system flag.
    COMPRESSED = 0x1
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    # One record holds many messages, which have tags of their own.
    INNER_BATCH = 0x80
    ADDRESS_BITS = 0x30
    HOST_SIZE_V4 = 8
    HOST_SIZE_V6 = 20

    # Between properties.
    SEPARATOR = 2
    # The last property: a mark, ten digits and a separator.
    CHECKSUM_MARK_SIZE = 9
    CHECKSUM_DIGITS = 10
    CHECKSUM_SIZE = 20
