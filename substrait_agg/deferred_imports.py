"""Import the names of a package on first use, so that a worker loads only what its task needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def defer(package: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """Return the ``__getattr__`` function of a package.

    Args:
        package: full name of the package.
        names: exported name -> module of the package that defines it; no name may equal that of a
            module.
    """

    def find(name: str) -> object:
        """Import a name on its first access."""
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(f"{package}.{names[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
