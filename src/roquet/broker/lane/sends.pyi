from roquet.broker.broker import Broker

class PlainSends:
    def __init__(self, broker: Broker) -> None: ...
