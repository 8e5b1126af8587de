from roquet.protocol.fields import Header

def reply_frame(
    opaque: int, code: int, header: Header | None, body: bytes, remark: str | None
) -> bytes | None: ...
