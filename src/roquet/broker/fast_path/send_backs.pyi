from roquet.broker.broker import Broker
from roquet.broker.fast_path.sends import FastSends

class FastSendBacks:
    def __init__(self, broker: Broker, sends: FastSends) -> None: ...
