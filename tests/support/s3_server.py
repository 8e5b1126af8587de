"""Moto's server as a program: S3 on a free port of this machine, which it prints.

With `--busy N` every Nth request is answered with 503. Of conditional puts, which must not replace
an object, `--conflicting N` refuses every Nth with 409, as a store that decides another one at that
moment; `--losing N` does every Nth and answers with 503, as if its answer was lost;
`--without-conditions` refuses all of them, as stores that cannot do it.
"""

import argparse
import itertools
import sys
from collections.abc import Callable, Iterable
from typing import Any, final

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

App = Callable[..., Iterable[bytes]]
_ANSWER = "<?xml version='1.0'?><Error><Code>%s</Code><Message>a test</Message></Error>"


@final
class FaultyStore:
    """The server behind its faults."""

    def __init__(self, app: App, faults: argparse.Namespace) -> None:
        self._app = app
        self._faults = faults
        self._requests = itertools.count(1)
        self._conditional = itertools.count(1)

    def __call__(self, environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if _is_turn(next(self._requests), self._faults.busy):
            return _refused(start, "503 Slow Down", "SlowDown")
        if "HTTP_IF_NONE_MATCH" not in environment:
            return self._app(environment, start)
        if self._faults.without_conditions:
            return _refused(start, "501 Not Implemented", "NotImplemented")
        number = next(self._conditional)
        if _is_turn(number, self._faults.conflicting):
            return _refused(start, "409 Conflict", "ConditionalRequestConflict")
        if _is_turn(number, self._faults.losing):
            b"".join(self._app(environment, lambda *_: None))
            return _refused(start, "503 Service Unavailable", "ServiceUnavailable")
        return self._app(environment, start)


def _is_turn(number: int, every: int) -> bool:
    return bool(every) and number % every == 0


def _refused(start: Callable[..., Any], status: str, code: str) -> Iterable[bytes]:
    start(status, [("Content-Type", "application/xml")])
    return [(_ANSWER % code).encode()]


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--busy", "--conflicting", "--losing"):
        parser.add_argument(name, type=int, default=0)
    parser.add_argument("--without-conditions", action="store_true")
    moto = DomainDispatcherApplication(create_backend_app)
    app = FaultyStore(moto, parser.parse_args())
    server = make_server("127.0.0.1", 0, app, threaded=True)
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
