"""Errors of the gRPC endpoint.

RoquetError
  GrpcError
    GrpcMissing      the endpoint cannot be served here: something is not installed
    Http2Broken      a peer broke the rules of HTTP/2; costs the connection
  Refused (net)
    RefusedCall      a call that is answered with a status of RocketMQ
"""

from roquet.errors import RoquetError


class GrpcError(RoquetError):
    pass


class GrpcMissing(GrpcError):
    def __init__(self, missing: str, remedy: str) -> None:
        super().__init__(f"the gRPC endpoint needs {missing}: {remedy}")
        self.missing = missing
        self.remedy = remedy


class Http2Broken(GrpcError):
    def __init__(self, reason: str) -> None:
        super().__init__(f"HTTP/2: {reason}")
        self.reason = reason
