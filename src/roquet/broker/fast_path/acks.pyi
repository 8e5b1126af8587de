from roquet.broker.broker import Broker
from roquet.net.router import Reply

class AckRun:
    def encoded(self, reply: Reply) -> bytes: ...

class FastAcks:
    def __init__(self, broker: Broker) -> None: ...
