from roquet.protocol.codes import RequestCode
from roquet.protocol.headers.messages import SendMessageHeaderV2

class SendTemplate:
    def __init__(self, code: RequestCode, header: SendMessageHeaderV2) -> None: ...
    def fill(
        self,
        born_timestamp: int,
        properties: str,
        body: bytes | bytearray,
        flag: int,
        sys_flag: int,
        opaque: int,
    ) -> bytes: ...
