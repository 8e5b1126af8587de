from roquet.broker.broker import Broker

class PlainPulls:
    def __init__(self, broker: Broker) -> None: ...
