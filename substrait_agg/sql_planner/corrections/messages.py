"""Walk over the messages of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message


def messages(root: Message, *names: str, outside: str = "") -> Iterator[Any]:
    """Yield all messages of some types below a message, outer ones first.

    Args:
        root: the message; it is yielded too.
        names: the types.
        outside: a type; messages of this type below `root` are passed over, with all inside them.
    """
    stack = [root]
    while stack:
        message = stack.pop()
        if message.DESCRIPTOR.full_name in names:
            yield message
        inner = (part for part in parts(message) if part.DESCRIPTOR.full_name != outside)
        stack.extend(reversed(list(inner)))


def outermost(root: Message, name: str, outside: str = "") -> Iterator[Any]:
    """Yield the messages of a type below a message, but not those inside of others.

    Args:
        root: the message; it is not yielded.
        name: the type.
        outside: a type; messages of this type are passed over, with all inside them.
    """
    stack = list(parts(root))[::-1]
    while stack:
        message = stack.pop()
        kind = message.DESCRIPTOR.full_name
        if kind == name:
            yield message
        elif kind != outside:
            stack.extend(list(parts(message))[::-1])


def parts(message: Message) -> Iterator[Message]:
    """Yield the messages directly in a message."""
    for field, value in message.ListFields():
        if field.type != FieldDescriptor.TYPE_MESSAGE:
            continue
        if field.is_repeated:
            yield from value
        else:
            yield value
