from roquet.broker.broker import Broker

class FastPops:
    def __init__(self, broker: Broker) -> None: ...
