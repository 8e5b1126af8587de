"""The process that attacks: libFuzzer ends it, so it is one of its own. `__main__` starts it."""

import sys

import atheris

with atheris.instrument_imports(include=["roquet"]):
    from roquet.protocol.errors import ProtocolError
    from tests.fuzz.targets import TARGETS


def main(name: str, *options: str) -> None:
    target = TARGETS[name]

    def attack(data: bytes) -> None:
        try:
            target.attack(data)
        except ProtocolError:
            return

    atheris.Setup([sys.argv[0], *options], attack)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
