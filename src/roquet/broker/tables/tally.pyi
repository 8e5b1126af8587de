class Tally:
    count: int
    size: int
    times: int
    is_forgotten: bool

    def add(self, count: int, size: int) -> None: ...

class Ways:
    plain: int
    ordinary: int

    @property
    def share(self) -> float: ...
