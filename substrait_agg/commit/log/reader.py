"""What a checkpoint holds, for whoever only reads it: documents, versions, what is kept and set."""

from __future__ import annotations

from functools import cached_property

from substrait_agg.commit.documents.envelope import damaged, unreadable
from substrait_agg.commit.documents.file_names import snapshot_name, version_of_snapshot
from substrait_agg.commit.documents.files import DRAFT, FolderFiles
from substrait_agg.commit.documents.plan_document import (
    PLAN,
    PlanDocument,
    has_others,
    other_document,
    parse_document,
    read_whole,
)
from substrait_agg.commit.documents.refusals import (
    not_a_checkpoint,
    rollback_unfinished,
    version_unknown,
)
from substrait_agg.commit.documents.snapshot import Snapshot, parse_snapshot, unseal_snapshot
from substrait_agg.commit.log.fence import NO_FENCE, Fence
from substrait_agg.commit.log.retention import RetentionState, kept
from substrait_agg.commit.log.settings import SETTINGS, CheckpointSettings
from substrait_agg.commit.log.stores import PROBE, checkpoint_location
from substrait_agg.errors import StateRefused
from substrait_agg.files.filesystem import filesystem
from substrait_agg.files.locations import Location, Remote

ROLLBACK = "rollback.json"
"""What a rollback is about to do, while it does it."""
MOST_VERSIONS = 10**20
"""There is no name for more."""


class Contents:
    """What one checkpoint folder holds, of a file system or of an object store.

    Args:
        folder: its path or URL; nothing is created before `create`.

    Raises:
        UsageError: a URL that cannot be used (`stores.checkpoint_location`).
    """

    def __init__(self, folder: str | Location) -> None:
        self.folder = checkpoint_location(folder)
        self._root = FolderFiles(self.folder)
        self._snapshots = FolderFiles(self.folder / "snapshots")
        self.state = FolderFiles(self.folder / "state")
        self.changes = FolderFiles(self.folder / "changes")
        self._owners = FolderFiles(self.folder / "owners")
        self._outputs = FolderFiles(self.folder / "outputs")
        self._spark = FolderFiles(self.folder / "spark")
        self.fence: Fence = NO_FENCE

    @property
    def root(self) -> FolderFiles:
        """The documents of the checkpoint."""
        return self._root

    @property
    def snapshots(self) -> FolderFiles:
        """The versions."""
        return self._snapshots

    @property
    def spark_folder(self) -> str:
        """Where Spark keeps the offsets and commits of its streaming query; in a store, what has been saved of them."""
        return str(self.folder / "spark")

    @property
    def spark(self) -> FolderFiles:
        """The files in `spark_folder`."""
        return self._spark

    def exists(self) -> bool:
        """Whether the folder holds a checkpoint."""
        return self._root.exists(PLAN)

    def check_usable(self) -> None:
        """Refuse a folder that is something else.

        Raises:
            StateRefused: NOT_A_CHECKPOINT when it has content but no plan document; STATE_DAMAGED when it has versions.
        """
        if self.exists():
            return
        path = self.folder
        if not isinstance(path, Remote) and path.exists() and not path.is_dir():
            raise not_a_checkpoint(self.folder, "this is not a folder")
        # Another run may have made it meanwhile.
        if self._snapshots.names() and not self.exists():
            raise damaged(PLAN, "it is missing, and there are versions")
        names = filesystem().names(self.folder, folders=True)
        if not all(name.startswith((DRAFT, PROBE)) for name in names) and not self.exists():
            raise not_a_checkpoint(self.folder, "this folder is not empty and holds no checkpoint")

    def check_runnable(self) -> None:
        """Refuse a checkpoint in the middle of a rollback.

        Raises:
            StateRefused: ROLLBACK_UNFINISHED.
        """
        if self._root.exists(ROLLBACK):
            raise rollback_unfinished(self.folder)

    def document(self) -> PlanDocument:
        """The document of the plan in force: that of the newest version.

        Raises:
            StateRefused: NOT_A_CHECKPOINT, STATE_DAMAGED, STATE_FORMAT_UNKNOWN.
        """
        first = self._identified()[1]
        versions = self.versions() if has_others(self._root) else []
        return self.document_of(self.snapshot(versions[-1]).plan) if versions else first

    def document_of(self, plan: str) -> PlanDocument:
        """The document of the plan of a version, by its fingerprint.

        Raises:
            StateRefused: as `document`.
        """
        first = self._identified()[1]
        if plan == first.plan:
            return first
        return other_document(self._root, plan, self.identity)

    @cached_property
    def identity(self) -> str:
        """The id of the checkpoint: given when it is begun, and in every document that belongs to it.

        Raises:
            StateRefused: as `document`.
        """
        return self._identified()[0]

    def _identified(self) -> tuple[str, PlanDocument]:
        content = self._content(self._root, PLAN, PLAN)
        if content is None:
            self.check_usable()
            raise not_a_checkpoint(self.folder, "this is not a checkpoint folder")
        return parse_document(content)

    def _owner(self) -> str | None:
        """The id; None where it cannot be told, which is for readers of the plan document to say."""
        try:
            return self.identity
        except StateRefused:
            return None

    def _content(self, files: FolderFiles, name: str, shown: str) -> bytes | None:
        """What a document has; None where there is none.

        Raises:
            StateRefused: STATE_DAMAGED.
        """
        if files.is_remote:  # asking for it twice takes twice as long
            try:
                return files.read(name)
            except FileNotFoundError:
                return None
            except OSError as error:
                raise unreadable(shown, error) from error
        return read_whole(files, name, shown) if files.exists(name) else None

    def versions(self) -> list[int]:
        """All committed versions, ascending; also what is left where some are missing (`check_versions`)."""
        found = map(version_of_snapshot, self._snapshots.names())
        return [version for version in found if version is not None]

    def check_versions(self) -> list[int]:
        """All committed versions that are kept, ascending and without a gap.

        Raises:
            StateRefused: STATE_DAMAGED where one is missing: in between, the oldest, or one whose batch Spark has noted.
        """
        # In this order: a batch that Spark has noted down was committed before, and what is kept is noted before the rest goes.
        noted = self._noted()
        found = self.versions()
        first = self.kept().changes_from
        found = [version for version in found if version >= first]
        for wanted, version in enumerate(found, start=first):
            if wanted != version:
                raise damaged(_shown(wanted), "it is missing")
        if first and not found:
            raise damaged(_shown(first), "it is missing")
        if noted is not None:
            newest = self.snapshot(found[-1]) if found else None
            if noted > (-1 if newest is None else newest.batch):
                missing = 0 if newest is None else newest.version + 1
                reason = f"it is missing: Spark has noted its batch {noted} as done"
                raise damaged(_shown(missing), reason)
        return found

    def _noted(self) -> int | None:
        """The newest batch that Spark has noted as done; in a store there is no note of that."""
        if self._root.is_remote:
            return None
        names = FolderFiles(self.folder / "spark" / "commits").names()
        return max((int(n) for n in names if n.isascii() and n.isdigit()), default=None)

    def latest(self) -> Snapshot | None:
        """The newest version, None before the first commit.

        Raises:
            StateRefused: as `check_versions` and `snapshot`.
        """
        versions = self.check_versions()
        return self.snapshot(versions[-1]) if versions else None

    def snapshot(self, version: int) -> Snapshot:
        """A version.

        Raises:
            StateRefused: VERSION_UNKNOWN, STATE_DAMAGED, STATE_FORMAT_UNKNOWN.
        """
        shown = _shown(version)
        content = self._version_content(version) if 0 <= version < MOST_VERSIONS else None
        if content is None:
            raise version_unknown(self.folder, version, self.check_versions())
        snapshot = parse_snapshot(content, shown, self._owner())
        if snapshot.version != version:
            raise damaged(shown, f"it holds version {snapshot.version}")
        if self._known_checksum(version - 1) not in (None, snapshot.parent):
            raise damaged(shown, f"it was not made after the version {version - 1} that is here")
        return snapshot

    def _version_content(self, version: int) -> bytes | None:
        name, shown = snapshot_name(version), _shown(version)
        return None if version < 0 else self._content(self._snapshots, name, shown)

    def _known_checksum(self, version: int) -> int | None:
        """The checksum of a version's document; None where it is not there, or damaged, which is for its readers to say."""
        try:
            return self._checksum_of(version)
        except StateRefused:
            return None

    def _checksum_of(self, version: int) -> int | None:
        """The checksum of a version's document; None where it is not there.

        Raises:
            StateRefused: STATE_DAMAGED, STATE_FORMAT_UNKNOWN.
        """
        shown, content = _shown(version), self._version_content(version)
        if content is None:
            return None
        opened = unseal_snapshot(content, shown)
        if opened.body.get("version") != version:
            raise damaged(shown, f"it holds version {opened.body.get('version')}")
        return opened.crc

    def kept(self) -> RetentionState:
        """What of old versions is still there.

        Raises:
            StateRefused: STATE_DAMAGED.
        """
        content = kept(self._root)
        if content is None:
            first = min(self.versions(), default=0)
            return RetentionState(first, first)
        return RetentionState.of(content, self._owner())

    def settings(self) -> CheckpointSettings:
        """What is set for the next runs.

        Raises:
            StateRefused: STATE_DAMAGED.
        """
        content = self._content(self._root, SETTINGS, SETTINGS)
        return (
            CheckpointSettings()
            if content is None
            else CheckpointSettings.of(content, self._owner())
        )


def _shown(version: int) -> str:
    return f"snapshots/{snapshot_name(version)}"
