"""A database of a server, with the connection of a test."""

from __future__ import annotations

from typing import Any

import psycopg2

from tests.connect.server import Server


class Database:
    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.name = name
        self.dsn = server.dsn(name)
        self._admin("CREATE DATABASE " + name)
        self.connection = self.connect()

    def _admin(self, text: str) -> None:
        connection = psycopg2.connect(self.server.dsn())
        connection.autocommit = True
        connection.cursor().execute(text)
        connection.close()

    def connect(self) -> Any:
        connection = psycopg2.connect(self.dsn)
        connection.autocommit = True
        return connection

    def run(self, text: str, values: object = None) -> list[tuple[Any, ...]]:
        """Execute one statement, or several in one transaction."""
        try:
            return self._run(text, values)
        except psycopg2.OperationalError:
            self.connection.close()
            self.connection = self.connect()
            return self._run(text, values)

    def _run(self, text: str, values: object) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(text, values)
            return cursor.fetchall() if cursor.description else []

    def drop(self) -> None:
        self.connection.close()
        connection = psycopg2.connect(self.server.dsn())
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute(
            "SELECT slot_name FROM pg_replication_slots WHERE database = %s", (self.name,)
        )
        for (slot,) in cursor.fetchall():
            cursor.execute(
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s AND active",
                (slot,),
            )
            for _ in range(50):
                try:
                    cursor.execute("SELECT pg_drop_replication_slot(%s)", (slot,))
                    break
                except psycopg2.errors.ObjectInUse:
                    cursor.execute("SELECT pg_sleep(0.1)")
        cursor.execute(f"DROP DATABASE {self.name} WITH (FORCE)")
        connection.close()
