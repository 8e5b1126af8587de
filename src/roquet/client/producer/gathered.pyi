from asyncio import Future

from roquet.client.errors import ClientError
from roquet.client.producer.outgoing import Ready
from roquet.client.producer.receipt import SendReceipt

class Gathered:
    messages: list[Ready]
    waiting: list[Future[SendReceipt]]
    size: int
    deadline_s: float
    def __init__(self) -> None: ...
    def add(
        self, message: Ready, waiting: Future[SendReceipt], size: int, deadline_s: float
    ) -> None: ...
    def hand_out(self, results: list[SendReceipt | ClientError]) -> None: ...
