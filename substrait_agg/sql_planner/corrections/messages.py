"""Walk over the messages of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message


def messages(root: Message, *names: str) -> Iterator[Any]:
    """Yield all messages of some types below a message, outer ones first."""
    stack = [root]
    while stack:
        message = stack.pop()
        if message.DESCRIPTOR.full_name in names:
            yield message
        stack.extend(reversed(list(parts(message))))


def parts(message: Message) -> Iterator[Message]:
    """Yield the messages directly in a message."""
    for field, value in message.ListFields():
        if field.type != FieldDescriptor.TYPE_MESSAGE:
            continue
        if field.is_repeated:
            yield from value
        else:
            yield value
