"""`roquet dashboard` as a process."""

from pathlib import Path

from tests.support.our_cluster import OurServer


class OurDashboard(OurServer):
    """On any port; polls often, so that tests need not wait. `arguments` are further words."""

    def __init__(self, directory: Path, name_server: str, *arguments: str) -> None:
        super().__init__(directory, r"^ready dashboard=(\S+)/\n")
        self._name_server = name_server
        self._arguments = arguments

    def command(self) -> list[str]:
        options = ("--port", "0", "--interval", "500ms", "--timeout", "2")
        return ["dashboard", "-n", self._name_server, *options, *self._arguments]

    @property
    def base(self) -> str:
        return self._ready_match[1]

    def __str__(self) -> str:
        return "our dashboard"
