"""The service that SDKs of RocketMQ 5.x talk to, by gRPC.

Duty: HTTP/2 and gRPC on one port, the methods of apache.rocketmq.v2.MessagingService, and the
clients that call them. Who answers them is a service: the broker of the same process, whose parts
its methods work on, or a proxy, which talks remoting to a cluster. Interface: `load_endpoint` and
`load_proxy`, for those who have a port for it: a broker without one does not pay for it.

    http2 connection calls    frames by nghttp2; limits of a peer; one call
    schema codes message_form messages of the service; their numbers; stored messages in its terms
    methods serving           which call goes where; refusals; the port
    outgoing receives route_form settings names   requests as they are checked, answers as they look
    shown_records wire_format   records of the log as receivers get them, in one pass; protobuf
    metrics                   what is counted of calls, for Prometheus
    telemetry telemetry_requests clients   who is connected; requests of operators to them
    signatures                which account may do what
    in_broker                 the endpoint of a broker; imports the broker, which does not know it
    proxy                     the endpoint in front of a cluster; imports the client
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

from roquet.grpc.errors import GrpcMissing

if TYPE_CHECKING:
    from roquet.broker.broker import Broker
    from roquet.clock import Clock
    from roquet.grpc.calls import EndpointFigures
    from roquet.grpc.proxy.server import ProxyConfig
    from roquet.net.tls.contexts import ServerTls
    from roquet.protocol.host import Address

    ServeProxy = Callable[[ProxyConfig, ServerTls, Clock], AbstractAsyncContextManager[Address]]

    class ServeGrpc(Protocol):
        def __call__(
            self,
            place: Address,
            broker: Broker,
            serving: Callable[[], Broker | None],
            clock: Clock,
            *,
            figures: EndpointFigures | None = None,
        ) -> AbstractAsyncContextManager[int]: ...


def load_endpoint() -> "ServeGrpc":
    """`serve_grpc`. Raises GrpcMissing."""
    _check_http2()
    try:
        from roquet.grpc.in_broker.server import serve_grpc  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    return serve_grpc


def load_proxy() -> "ServeProxy":
    """`serve_proxy`. Raises GrpcMissing."""
    _check_http2()
    try:
        from roquet.grpc.proxy.server import serve_proxy  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    return serve_proxy


def _missing(error: ModuleNotFoundError) -> GrpcMissing:
    return GrpcMissing(str(error.name), "pip install 'roquet[grpc]'")


def _check_http2() -> None:
    """Raises GrpcMissing."""
    try:
        import roquet.grpc.http2  # noqa: F401, PLC0415
    except ModuleNotFoundError:
        raise GrpcMissing(
            "nghttp2, which was not there when Roquet was compiled",
            "install its header (on Debian: apt-get install libnghttp2-dev), and then Roquet again:"
            " pip install --force-reinstall --no-binary roquet 'roquet[grpc]'",
        ) from None
    except ImportError as error:
        remedy = "install it (on Debian: apt-get install libnghttp2-14)"
        raise GrpcMissing(f"the library nghttp2 ({error})", remedy) from None
