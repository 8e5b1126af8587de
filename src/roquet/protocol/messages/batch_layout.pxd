"""Numbers of an item of the batch that `batch.py` draws, for compiled code."""

cdef enum:
    ITEM_FLAG_AT = 12
    ITEM_BODY_SIZE_AT = 16
    ITEM_HEAD_SIZE = 20
