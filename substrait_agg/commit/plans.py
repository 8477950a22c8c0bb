"""The plan documents of a checkpoint: that of its first plan, and one for each plan that it has gone on with."""

from __future__ import annotations

from dataclasses import replace

from substrait_agg.commit.document import (
    PLANS,
    PlanDocument,
    document_bytes,
    document_name,
    parse_document,
)
from substrait_agg.commit.files import FolderFiles
from substrait_agg.commit.sealed import damaged, unreadable


def read_whole(files: FolderFiles, name: str, shown: str) -> bytes:
    """The bytes of a file that has to be there.

    Raises:
        StateRefused: STATE_DAMAGED.
    """
    try:
        return files.read(name)
    except FileNotFoundError as error:
        raise damaged(shown, "it is missing") from error
    except OSError as error:
        raise unreadable(shown, error) from error


def has_others(root: FolderFiles) -> bool:
    """Whether there are documents of other plans than the first."""
    return any(PLANS.fullmatch(name) for name in root.names())


def other_document(root: FolderFiles, plan: str, identity: str) -> PlanDocument:
    """The document of a plan that is not the first, by its fingerprint.

    Raises:
        StateRefused: STATE_DAMAGED, STATE_FORMAT_UNKNOWN.
    """
    name = document_name(plan)
    _, found = parse_document(read_whole(root, name, name), name, identity)
    if found.plan != plan:
        raise damaged(name, f"it is that of plan {found.plan[:12]}")
    return found


def publish_document(root: FolderFiles, document: PlanDocument, identity: str) -> None:
    """Write the document of a plan that is not the first, unless it is there.

    Raises:
        OSError, OutcomeUnknown: it could not be written.
    """
    root.publish(document_name(document.plan), document_bytes(document, identity))


def check_same_document(there: PlanDocument, document: PlanDocument) -> None:
    """Refuse a document of the same plan that says something else of the state; how things are worded is no matter.

    Raises:
        StateRefused: STATE_DAMAGED.
    """
    if replace(there, described=document.described) != document:
        raise damaged(
            document_name(document.plan), "it is that of another release or of other options"
        )
