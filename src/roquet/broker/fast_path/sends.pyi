from roquet.broker.broker import Broker

class FastSends:
    def __init__(self, broker: Broker) -> None: ...
