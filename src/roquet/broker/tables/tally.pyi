class Tally:
    count: int
    size: int
    times: int
    is_forgotten: bool

    def add(self, count: int, size: int) -> None: ...

class PathCounts:
    fast: int
    slow: int

    @property
    def share(self) -> float: ...
