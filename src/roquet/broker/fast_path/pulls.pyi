from roquet.broker.broker import Broker

class FastPulls:
    def __init__(self, broker: Broker) -> None: ...
