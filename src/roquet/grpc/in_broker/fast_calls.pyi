from roquet.broker.broker import Broker
from roquet.grpc.calls import EndpointFigures
from roquet.grpc.clients import GrpcClients
from roquet.grpc.connection import GrpcConnection
from roquet.grpc.http2 import Event, Http2Session
from roquet.grpc.in_broker.ack_turn import AckTurn
from roquet.grpc.in_broker.registration import Held

class FastCalls:
    broker: Broker

    def __init__(
        self,
        broker: Broker,
        figures: EndpointFigures,
        ack_turn: AckTurn,
        clients: GrpcClients[Held],
    ) -> None: ...
    def begin(self, connection: GrpcConnection) -> None: ...
    def take(
        self,
        connection: GrpcConnection,
        session: Http2Session,
        events: list[Event],
        start: int,
    ) -> int: ...
