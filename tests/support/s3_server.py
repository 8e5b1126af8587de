"""Moto's server as a program: S3 on a free port of this machine, which it prints.

With `--busy N` every Nth request is answered with 503; with `--without-conditions` a put that must
not replace an object is refused, as by stores that cannot do it.
"""

import argparse
import itertools
import sys
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

_ANSWER = "<?xml version='1.0'?><Error><Code>%s</Code><Message>a test</Message></Error>"


def refusing(
    app: Callable[..., Iterable[bytes]], busy: int, *, has_conditions: bool
) -> Callable[..., Iterable[bytes]]:
    numbers = itertools.count(1)

    def answer(environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        is_conditional = "HTTP_IF_NONE_MATCH" in environment
        if busy and next(numbers) % busy == 0:
            start("503 Slow Down", [("Content-Type", "application/xml")])
            return [(_ANSWER % "SlowDown").encode()]
        if is_conditional and not has_conditions:
            start("501 Not Implemented", [("Content-Type", "application/xml")])
            return [(_ANSWER % "NotImplemented").encode()]
        return app(environment, start)

    return answer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--without-conditions", action="store_true")
    given = parser.parse_args()
    moto = DomainDispatcherApplication(create_backend_app)
    app = refusing(moto, given.busy, has_conditions=not given.without_conditions)
    server = make_server("127.0.0.1", 0, app, threaded=True)
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
