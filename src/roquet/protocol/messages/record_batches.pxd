from roquet.protocol.binary cimport Span, uint8_t
from roquet.protocol.messages.drafts cimport Item

cdef Py_ssize_t count_items(Span body) noexcept nogil
cdef const uint8_t* read_item(const uint8_t* at, Item* item) noexcept nogil
