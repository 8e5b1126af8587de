from roquet.broker.broker import Broker

class FastBatchAcks:
    def __init__(self, broker: Broker) -> None: ...
