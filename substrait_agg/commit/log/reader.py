"""Read a checkpoint: documents, versions, retention and settings."""

from __future__ import annotations

from collections.abc import Sequence

from substrait_agg.commit.documents.envelope import Sealed, refuse_damage, unreadable
from substrait_agg.commit.documents.file_names import (
    snapshot_name,
    version_of,
    version_of_snapshot,
)
from substrait_agg.commit.documents.files import DRAFT, FolderFiles
from substrait_agg.commit.documents.plan_document import (
    PLAN,
    PlanDocument,
    has_others,
    other_document,
    parse_document,
    read_whole,
)
from substrait_agg.commit.documents.snapshot import Snapshot, parse_snapshot, unseal_snapshot
from substrait_agg.commit.log.fence import NO_FENCE, Fence
from substrait_agg.commit.log.retention import RetentionState, newest_retention
from substrait_agg.commit.log.settings import SETTINGS, CheckpointSettings
from substrait_agg.commit.log.stores import PROBE, checkpoint_location
from substrait_agg.errors import StateRefused
from substrait_agg.files.filesystem import filesystem
from substrait_agg.files.lazy_property import lazy_property
from substrait_agg.files.locations import Location, Remote

ROLLBACK = "rollback.json"
"""Name of the document that a rollback writes before it starts and removes at the end."""
FOLDERS = ("snapshots", "state", "changes", "owners", "outputs")
MOST_VERSIONS = 10**20
"""Greatest number of versions: file names have 20 digits."""
REMEMBERED_VERSIONS = 16
"""Published versions that are not parsed again. A sweep reads those since the last one."""
_REMEMBERED_BYTES = 1 << 20


EXPIRED_HELP = "use one of those versions; run --keep-versions and --keep-for keep more"


class CheckpointReader:
    """Read access to a checkpoint folder, in a file system or an object store.

    Args:
        folder: its path or URL. Nothing is created before `create`.

    Attributes:
        root: the folder of the plan document, the settings and the like.
        state: the folder of the runs.
        changes: the folder of the change files.
        fence: the claim of the run that uses the checkpoint; `NO_FENCE` before a claim.

    Raises:
        UsageError: the URL is invalid (`stores.checkpoint_location`).
    """

    def __init__(self, folder: str | Location) -> None:
        self.folder = checkpoint_location(folder)
        self.root = FolderFiles(self.folder)
        self.snapshots = FolderFiles(self.folder / "snapshots")
        self.state = FolderFiles(self.folder / "state")
        self.changes = FolderFiles(self.folder / "changes")
        self._owners = FolderFiles(self.folder / "owners")
        self._outputs = FolderFiles(self.folder / "outputs")
        self.fence: Fence = NO_FENCE
        self._published: dict[int, tuple[Snapshot, Sealed]] = {}

    def exists(self) -> bool:
        """Return whether the folder is a checkpoint."""
        return self.root.exists(PLAN)

    def check_usable(self) -> None:
        """Refuse a folder that is something else than a checkpoint.

        Raises:
            StateRefused: NOT_A_CHECKPOINT if it has content but no plan document, or cannot be a folder.
                STATE_DAMAGED if it has versions but no plan document, or if that is damaged.
        """
        if self.exists():
            self._identify()
            return
        path = self.folder
        if not isinstance(path, Remote) and path.exists() and not path.is_dir():
            raise _not_a_checkpoint(self.folder, "this is not a folder")
        above = () if isinstance(path, Remote) else path.parents
        nearest = next((folder for folder in above if folder.exists()), None)
        if nearest is not None and not nearest.is_dir():
            raise _not_a_checkpoint(self.folder, f"{nearest} is not a folder")
        # Another run may have created the checkpoint in the meantime.
        if self.snapshots.names() and not self.exists():
            raise refuse_damage(PLAN, "it is missing, but versions exist")
        names = filesystem().names(self.folder, folders=True)
        if not all(name.startswith((DRAFT, PROBE)) for name in names) and not self.exists():
            raise _not_a_checkpoint(self.folder, "this folder is not empty and is not a checkpoint")

    def check_runnable(self) -> None:
        """Refuse a checkpoint with an unfinished rollback.

        Raises:
            StateRefused: ROLLBACK_UNFINISHED.
        """
        if self.root.exists(ROLLBACK):
            raise StateRefused(
                "ROLLBACK_UNFINISHED",
                "a rollback was started and not finished",
                help="run the same state rollback again: it continues where it stopped",
                path=str(self.folder),
            )

    def document(self) -> PlanDocument:
        """Return the document of the current plan, which is the plan of the newest version.

        Raises:
            StateRefused: NOT_A_CHECKPOINT, STATE_DAMAGED, STATE_FORMAT_UNKNOWN.
        """
        first = self._identify()[1]
        versions = self.versions() if has_others(self.root) else []
        return self.document_of(self.snapshot(versions[-1]).plan) if versions else first

    def document_of(self, plan: str) -> PlanDocument:
        """Return the document of a plan by its fingerprint.

        Raises:
            StateRefused: as `document`.
        """
        first = self._identify()[1]
        if plan == first.plan:
            return first
        return other_document(self.root, plan, self.identity)

    @lazy_property
    def identity(self) -> str:
        """The id of the checkpoint. All its documents have it.

        Raises:
            StateRefused: as `document`.
        """
        return self._identify()[0]

    def _identify(self) -> tuple[str, PlanDocument]:
        content = self._content(self.root, PLAN, PLAN)
        if content is None:
            self.check_usable()
            raise _not_a_checkpoint(self.folder, "this is not a checkpoint folder")
        try:
            return parse_document(content)
        except StateRefused as error:
            if error.code != "STATE_DAMAGED" or self._has_folders():
                raise
            reason = f"its {PLAN} is not the plan document of a checkpoint"
            raise _not_a_checkpoint(self.folder, reason) from error

    def _has_folders(self) -> bool:
        """Return whether the folder has any of the folders of a checkpoint."""
        return not set(FOLDERS).isdisjoint(filesystem().names(self.folder, folders=True))

    def _owner(self) -> str | None:
        """Return the id, or None if it cannot be read: readers of the plan document report that."""
        try:
            return self.identity
        except StateRefused:
            return None

    def _content(self, files: FolderFiles, name: str, shown: str) -> bytes | None:
        """Return the content of a document, or None if there is none."""
        if files.is_remote:  # a separate request for its existence would double the time
            try:
                return files.read(name)
            except FileNotFoundError:
                return None
            except OSError as error:
                raise unreadable(shown, error) from error
        return read_whole(files, name, shown) if files.exists(name) else None

    def versions(self) -> list[int]:
        """Return all committed versions, ascending. There may be gaps (see `check_versions`)."""
        numbers = map(version_of_snapshot, self.snapshots.names())
        return [version for version in numbers if version is not None]

    def check_versions(self) -> list[int]:
        """Return all kept versions, ascending, after a check for gaps.

        Raises:
            StateRefused: STATE_DAMAGED if a version is missing: one in between, the oldest, or all.
        """
        versions = self.versions()
        first = self.retention_state().changes_from
        versions = [version for version in versions if version >= first]
        for expected, version in enumerate(versions, start=first):
            if expected != version:
                raise refuse_damage(_show_version(expected), "it is missing")
        if not versions and (first or self._has_lost_all()):
            raise refuse_damage(_show_version(first), "it is missing")
        return versions

    def _has_lost_all(self) -> bool:
        """Return whether there are files of versions after the first one, but no versions."""
        names = (*self.state.names(), *self.changes.names())
        # Another run may have made the versions in the meantime.
        return any(version_of(name) for name in names) and not self.versions()

    def newest_snapshot(self) -> Snapshot | None:
        """Return the newest version, or None before the first commit.

        Raises:
            StateRefused: as `check_versions` and `snapshot`.
        """
        versions = self.check_versions()
        return self.snapshot(versions[-1]) if versions else None

    def snapshot(self, version: int) -> Snapshot:
        """Read the snapshot of a version.

        Raises:
            StateRefused: VERSION_UNKNOWN, STATE_DAMAGED, STATE_FORMAT_UNKNOWN.
        """
        shown = _show_version(version)
        content = self._version_content(version) if 0 <= version < MOST_VERSIONS else None
        if content is None:
            raise _version_unknown(self.folder, version, self.check_versions())
        published = self._published_as(version, content)
        snapshot = published[0] if published else parse_snapshot(content, shown, self._owner())
        if snapshot.version != version:
            raise refuse_damage(shown, f"it contains version {snapshot.version}")
        if self._known_checksum(version - 1) not in (None, snapshot.parent):
            raise refuse_damage(
                shown, f"it does not follow version {version - 1} of this checkpoint"
            )
        return snapshot

    def _version_content(self, version: int) -> bytes | None:
        name, shown = snapshot_name(version), _show_version(version)
        return None if version < 0 else self._content(self.snapshots, name, shown)

    def _known_checksum(self, version: int) -> int | None:
        """Return the checksum of a version's document.

        Return None if it is missing or damaged: the readers of that version report the damage.
        """
        try:
            return self._checksum_of(version)
        except StateRefused:
            return None

    def _checksum_of(self, version: int) -> int | None:
        """Return the checksum of a version's document, or None if it is missing."""
        shown, content = _show_version(version), self._version_content(version)
        if content is None:
            return None
        if published := self._published_as(version, content):
            return published[1].crc
        opened = unseal_snapshot(content, shown)
        if opened.body.get("version") != version:
            raise refuse_damage(shown, f"it contains version {opened.body.get('version')}")
        return opened.crc

    def _remember(self, snapshot: Snapshot, document: Sealed) -> None:
        """Remember a version that this object has published, unless its document is large."""
        self._published.pop(snapshot.version - REMEMBERED_VERSIONS, None)
        if len(document.content) <= _REMEMBERED_BYTES:
            self._published[snapshot.version] = snapshot, document

    def _published_as(self, version: int, content: bytes) -> tuple[Snapshot, Sealed] | None:
        """Return a version that this object has published with this content; None for any other."""
        published = self._published.get(version)
        return published if published and published[1].content == content else None

    def retention_state(self) -> RetentionState:
        """Read the record of the versions that are kept.

        Raises:
            StateRefused: STATE_DAMAGED.
        """
        content = newest_retention(self.root)
        if content is None:
            first = min(self.versions(), default=0)
            return RetentionState(first, first)
        return RetentionState.of(content, self._owner())

    def check_kept(self, version: int, help: str = EXPIRED_HELP) -> None:
        """Refuse a version whose state is no longer kept.

        Raises:
            StateRefused: VERSION_EXPIRED.
        """
        first = self.retention_state().state_from
        if version < first:
            raise StateRefused(
                "VERSION_EXPIRED",
                f"the state of version {version} is no longer kept (the oldest version with state is {first})",
                help=help,
                path=str(self.folder),
            )

    def settings(self) -> CheckpointSettings:
        """Read the settings for the next runs.

        Raises:
            StateRefused: STATE_DAMAGED.
        """
        content = self._content(self.root, SETTINGS, SETTINGS)
        return (
            CheckpointSettings()
            if content is None
            else CheckpointSettings.of(content, self._owner())
        )


def _show_version(version: int) -> str:
    return f"snapshots/{snapshot_name(version)}"


def _not_a_checkpoint(folder: Location, reason: str) -> StateRefused:
    """Return the error for a folder that is not a checkpoint."""
    return StateRefused(
        "NOT_A_CHECKPOINT",
        reason,
        help="give the folder of run --checkpoint, or an empty or new folder to start a checkpoint",
        path=str(folder),
    )


def _version_unknown(folder: Location, version: int, versions: Sequence[int]) -> StateRefused:
    """Return the error for an unknown version. The message names the known ones."""
    span = f"{versions[0]} to {versions[-1]}" if versions else "none yet"
    return StateRefused(
        "VERSION_UNKNOWN",
        f"there is no version {version}; committed versions: {span}",
        help="use one of those" if versions else "start the run, which commits version 0 first",
        path=str(folder),
    )
