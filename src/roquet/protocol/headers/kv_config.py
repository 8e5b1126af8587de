"""Headers of the name server's small table of settings by namespace and key."""

from roquet.protocol.fields import Header


class PutKvConfigHeader(Header):
    namespace: str
    key: str
    value: str


class GetKvConfigHeader(Header):
    namespace: str
    key: str


class GetKvConfigReplyHeader(Header):
    value: str | None = None


class DeleteKvConfigHeader(Header):
    namespace: str
    key: str


class ListKvConfigHeader(Header):
    namespace: str
