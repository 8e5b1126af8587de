from typing import final

@final
class ComparedRecords:
    def forget(self) -> None: ...
