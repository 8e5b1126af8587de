"""Numbers of apache.rocketmq.v2 that have names, and refusals in its terms."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from roquet.grpc.schema import Message, pb
from roquet.net.errors import Refused
from roquet.protocol.codes import ResponseCode


class Code(IntEnum):
    """Of a status. SDKs raise at once for 40xxx, back off for 429xx, retry elsewhere for 50xxx."""

    OK = 20000
    MULTIPLE_RESULTS = 30000
    BAD_REQUEST = 40000
    ILLEGAL_TOPIC = 40002
    ILLEGAL_CONSUMER_GROUP = 40003
    ILLEGAL_MESSAGE_TAG = 40004
    ILLEGAL_MESSAGE_KEY = 40005
    ILLEGAL_MESSAGE_GROUP = 40006
    ILLEGAL_MESSAGE_PROPERTY_KEY = 40007
    INVALID_TRANSACTION_ID = 40008
    ILLEGAL_MESSAGE_ID = 40009
    ILLEGAL_FILTER_EXPRESSION = 40010
    ILLEGAL_INVISIBLE_TIME = 40011
    ILLEGAL_DELIVERY_TIME = 40012
    INVALID_RECEIPT_HANDLE = 40013
    MESSAGE_PROPERTY_CONFLICT_WITH_TYPE = 40014
    UNRECOGNIZED_CLIENT_TYPE = 40015
    MESSAGE_CORRUPTED = 40016
    CLIENT_ID_REQUIRED = 40017
    ILLEGAL_POLLING_TIME = 40018
    UNAUTHORIZED = 40100
    FORBIDDEN = 40300
    MESSAGE_NOT_FOUND = 40401
    TOPIC_NOT_FOUND = 40402
    CONSUMER_GROUP_NOT_FOUND = 40403
    MESSAGE_BODY_TOO_LARGE = 41301
    MESSAGE_BODY_EMPTY = 41302
    TOO_MANY_REQUESTS = 42900
    MESSAGE_PROPERTIES_TOO_LARGE = 43101
    INTERNAL_SERVER_ERROR = 50001
    HA_NOT_AVAILABLE = 50002
    NOT_IMPLEMENTED = 50100
    PROXY_TIMEOUT = 50400
    MASTER_PERSISTENCE_TIMEOUT = 50401
    SLAVE_PERSISTENCE_TIMEOUT = 50402


class MessageType(IntEnum):
    NORMAL = 1
    FIFO = 2
    DELAY = 3
    TRANSACTION = 4
    PRIORITY = 6


class ClientType(IntEnum):
    PRODUCER = 1
    PUSH_CONSUMER = 2
    SIMPLE_CONSUMER = 3


class Permission(IntEnum):
    NONE = 1
    READ = 2
    WRITE = 3
    READ_WRITE = 4


class FilterType(IntEnum):
    TAG = 1
    SQL = 2


class Encoding(IntEnum):
    IDENTITY = 1
    GZIP = 2


class DigestType(IntEnum):
    MD5 = 2


class Resolution(IntEnum):
    COMMIT = 1
    ROLLBACK = 2


# Of replies of remoting; all others are internal errors.
_CODES: Final[Mapping[int, Code]] = {
    ResponseCode.SUCCESS: Code.OK,
    ResponseCode.SYSTEM_BUSY: Code.TOO_MANY_REQUESTS,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: Code.NOT_IMPLEMENTED,
    ResponseCode.TOPIC_NOT_EXIST: Code.TOPIC_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: Code.CONSUMER_GROUP_NOT_FOUND,
    ResponseCode.NO_PERMISSION: Code.FORBIDDEN,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: Code.ILLEGAL_FILTER_EXPRESSION,
    ResponseCode.POLLING_FULL: Code.TOO_MANY_REQUESTS,
    ResponseCode.FLUSH_DISK_TIMEOUT: Code.MASTER_PERSISTENCE_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: Code.SLAVE_PERSISTENCE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: Code.HA_NOT_AVAILABLE,
}


class RefusedCall(Refused):
    """A call that is answered with this status."""

    def __init__(self, status: Code, remark: str) -> None:
        super().__init__(ResponseCode.SYSTEM_ERROR, remark)
        self.args = (f"{status.name}: {remark}",)
        self.status = status


def status_of(code: Code, text: str = "") -> Message:
    return pb.Status(code=code, message=text or code.name)


def put_status(status: Message, code: Code) -> None:
    """Into the status of a message."""
    status.code = code
    status.message = code.name


def refusal_status(refused: Refused) -> Message:
    """The status of anything that handlers refuse."""
    if isinstance(refused, RefusedCall):
        return status_of(refused.status, refused.remark)
    return status_of(code_of(refused.code), refused.remark)


def code_of(code: int) -> Code:
    return _CODES.get(code, Code.INTERNAL_SERVER_ERROR)


def common_status(statuses: list[Message]) -> Message:
    """Of an answer with several results."""
    if all(each.code == statuses[0].code for each in statuses):
        return statuses[0]
    return status_of(Code.MULTIPLE_RESULTS)
