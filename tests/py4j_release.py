"""Release the objects of the JVM in batches.

py4j sends a command for each object that Python has released, and waits for the answer. Columns are
thousands of short-lived objects, so this was two fifths of all messages to the JVM.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress

from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER, FinalizerWorker, JavaClient
from py4j.protocol import MEMORY_COMMAND_NAME, MEMORY_DEL_SUBCOMMAND_NAME

COMMAND = MEMORY_COMMAND_NAME + MEMORY_DEL_SUBCOMMAND_NAME
PAUSE_SECONDS = 0.2
AT_ONCE = 500
"""The answers to so many commands fit into the buffers of a socket."""


def run(worker: FinalizerWorker) -> None:
    """Do what the method of this name of py4j's thread does."""
    ended = False
    while not ended:
        released: dict[JavaClient, list[str]] = defaultdict(list)
        while worker.deque and not ended:
            task = worker.deque.pop()
            ended = task == SHUTDOWN_FINALIZER_WORKER
            if not ended:
                client, name = task
                released[client].append(name)
        for client, names in released.items():
            with suppress(Exception):  # a JVM that has ended has released everything
                _release(client, names)
        time.sleep(PAUSE_SECONDS)


def _release(client: JavaClient, names: Sequence[str]) -> None:
    """Send the commands of a batch together, and then read an answer to each."""
    connection = client._get_connection()
    for begin in range(0, len(names), AT_ONCE):
        batch = names[begin : begin + AT_ONCE]
        connection.socket.sendall("".join(f"{COMMAND}{name}\ne\n" for name in batch).encode())
        for _ in batch:
            connection.stream.readline()
    client._give_back_connection(connection)
