"""All JSON bodies that are declared anywhere in `roquet.protocol.bodies`."""

import importlib
import inspect
import pkgutil

from roquet.protocol import bodies
from roquet.protocol.bodies.body import Body


def declared_bodies() -> list[type[Body]]:
    """In the order of module and class names, so that test ids do not change."""
    return [
        member
        for module in pkgutil.iter_modules(bodies.__path__, bodies.__name__ + ".")
        for _, member in inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
        if issubclass(member, Body) and member.__module__ == module.name and member is not Body
    ]
