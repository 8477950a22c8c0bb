"""The cases of the crash matrix, and how one is run."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar
from unittest.mock import patch

from fsspec.implementations.memory import MemoryFileSystem

from substrait_agg.errors import CommitConflict, SubstraitAggError
from substrait_agg.runtime.executor import Executor
from tests.crash.faulty_disk import Dead, FaultyDisk, Mode, Point, Strike
from tests.crash.scenario import (
    FIRST,
    Call,
    Ending,
    World,
    check_calls,
    check_left,
    ending,
    local_executor,
    run,
)
from tests.crash.settings import BATCHES, Setting
from tests.filesystem import use_filesystem

T = TypeVar("T")

MOST_RUNS = 4


@dataclass(frozen=True)
class Start:
    """A recorded state from which a run continues.

    Attributes:
        batches: how many batches were run before.
        copy: copy of the folder, None for an empty one.
        stored: content of the store that has the checkpoint, None where none has.
        calls: what the callback was given until then.
        seen: operations of an undisturbed run from here to the end.
    """

    batches: int
    copy: Path | None
    stored: MemoryStore | None
    calls: list[Call]
    seen: Counter[Point] = field(default_factory=Counter)

    def restore(self, world: World) -> None:
        """Restore a world to this state."""
        shutil.rmtree(world.folder)
        if self.copy is None:
            world.folder.mkdir()
        else:
            shutil.copytree(self.copy, world.folder)
            world.calls["first"] = list(self.calls)
        if self.stored is not None:
            self.stored.put_back(empty=self.copy is None)

    def __str__(self) -> str:
        return f"a run from batch {self.batches} on"


@dataclass(frozen=True)
class Undisturbed:
    """An undisturbed scenario.

    Attributes:
        setting: what is run.
        ending: what it leaves.
        folder: where it ran, and where every case runs: records of outputs name their paths.
        empty: the start of its first run.
        starts: the start of its second run, then those after each further batch.
        evolving: operations of the second run before it goes on with another plan, and when it has.
    """

    setting: Setting
    ending: Ending
    folder: Path
    empty: Start
    starts: tuple[Start, ...]
    evolving: tuple[Counter[Point], ...] = ()

    def world(self) -> World:
        """The world of a case."""
        bucket = self.empty.stored.bucket if self.empty.stored else ""
        return World(self.folder, self.setting, bucket=bucket)

    @property
    def points(self) -> set[tuple[str, str]]:
        """The operations and their targets."""
        seen = self.empty.seen + self.starts[0].seen
        return {(point.operation, point.what) for point in seen}


class MemoryStore:
    """A store in this process whose content can be put back.

    Attributes:
        bucket: its URL.
    """

    bucket = "memory://crash"

    def __init__(self) -> None:
        self._content = {k: bytes(f.getbuffer()) for k, f in MemoryFileSystem.store.items()}

    def put_back(self, *, empty: bool = False) -> None:
        """Restore the recorded content, or nothing."""
        MemoryFileSystem.store.clear()
        MemoryFileSystem.pseudo_dirs[:] = [""]
        system = MemoryFileSystem()
        for name, content in ({} if empty else self._content).items():
            system.pipe_file(name, content)


def undisturbed(
    folder: Path,
    setting: Setting,
    bucket: str = "",
    executor: Callable[[], Executor[Any]] = local_executor,
) -> Undisturbed:
    """Run a setting in a folder, with its checkpoint in a bucket if there is one, and record every
    operation.
    """
    world = World(folder / "world", setting, bucket=bucket, executor=executor)
    world.folder.mkdir(parents=True)
    first, second = FaultyDisk(world.folder), FaultyDisk(world.folder)
    with use_filesystem(first):
        run(world, FIRST, "first")
    empty = Start(0, None, MemoryStore() if bucket else None, [], first.seen)
    starts = [_recorded(world, folder, FIRST, second.seen)]
    starts[0].restore(world)
    evolving: list[Counter[Point]] = []
    world.recorded_calls = lambda: evolving.append(Counter(second.seen))

    def record(batch: int) -> None:
        if FIRST < batch + 1 < BATCHES:
            starts.append(_recorded(world, folder, batch + 1))

    with use_filesystem(second):
        run(world, BATCHES, "second", None if setting.other else record)
    end = ending(world)
    check_calls(world, end, one_by_one=True)
    check_left(world)
    whole = Undisturbed(setting, end, world.folder, empty, tuple(starts), tuple(evolving))
    for start in starts[1:]:
        _count(whole, start)
    return whole


def _recorded(
    world: World, folder: Path, batches: int, seen: Counter[Point] | None = None
) -> Start:
    """Copy a world between two batches, with a line of an output that a kill has cut off."""
    copy = folder / f"after-{batches}"
    shutil.copytree(world.folder, copy)
    with (copy / "out.jsonl").open("a") as lines:
        lines.write('{"version":')
    calls = [call for calls in world.calls.values() for call in calls]
    stored = MemoryStore() if world.bucket else None
    return Start(batches, copy, stored, calls, Counter() if seen is None else seen)


def _count(whole: Undisturbed, start: Start) -> None:
    """Record the operations of a run that continues from a start; it has to end like the other
    runs.
    """
    world, faulty = whole.world(), FaultyDisk(whole.folder)
    start.restore(world)
    with use_filesystem(faulty):
        run(world, BATCHES, "counted")
    assert ending(world) == whole.ending
    start.seen.update(faulty.seen)


@dataclass(frozen=True)
class Case:
    """One operation, and its fault.

    Attributes:
        strike: the operation, the ordinal of its call in the run, and the mode.
        start: where the run begins.
    """

    strike: Strike
    start: Start

    @property
    def is_error(self) -> bool:
        """Whether the run meets an error, and is neither killed nor asleep."""
        return self.strike.mode.startswith(("fails", "done"))

    def __str__(self) -> str:
        point = self.strike.point
        return f"{point.operation} {point.what} in {point.caller} (call {self.strike.ordinal} of {self.start}): {self.strike.mode}"


def cases(
    whole: Undisturbed,
    operation: str,
    *,
    every_caller: bool,
    every_call: bool = False,
    but: Collection[tuple[str, str]] = (),
) -> Iterator[Case]:
    """Everything that can go wrong with an operation.

    Args:
        whole: what there is.
        operation: method of `Disk`.
        every_caller: once for every function that asks for it, else once for what it is done to.
        every_call: every call, else the one in the middle.
        but: operations, and what they are done to, that are left out.
    """
    told: set[tuple[str, str, str]] = set()
    for start in (whole.starts[0], whole.empty):
        for point, count in sorted(start.seen.items()):
            if point.operation != operation or (operation, point.what) in but:
                continue
            key = (point.operation, point.what, point.caller if every_caller else "")
            if key in told and not every_call:
                continue
            told.add(key)
            for mode in point.modes(every=every_caller):
                if every_call:
                    for ordinal in range(1, count + 1):
                        yield Case(Strike(point, ordinal, mode), start)
                else:
                    yield _case(whole, start, point, mode)


def _case(whole: Undisturbed, start: Start, point: Point, mode: Mode) -> Case:
    """The call in the middle of the shortest run that has one."""
    # While one run sleeps, another one goes on for several versions.
    if start.copy is not None and not mode.startswith("sleeps"):
        start = next(s for s in reversed(whole.starts) if point in s.seen)
    return Case(Strike(point, (start.seen[point] + 1) // 2, mode), start)


def evolving_cases(
    whole: Undisturbed, *, every_call: bool = False, every_caller: bool = False
) -> Iterator[Case]:
    """Everything that can go wrong while a run goes on with another plan.

    Args:
        whole: of a world that does.
        every_call: every call, else the one in the middle.
        every_caller: once for every function that asks for it, else once for what it is done to.
    """
    before, after = whole.evolving
    told: set[tuple[str, str, str]] = set()
    for point in sorted(after - before):
        key = (point.operation, point.what, point.caller if every_caller else "")
        if key in told and not every_call:
            continue
        told.add(key)
        ordinals = range(before[point] + 1, after[point] + 1)
        for ordinal in ordinals if every_call else [ordinals[len(ordinals) // 2]]:
            for mode in point.modes(every=every_caller):
                yield Case(Strike(point, ordinal, mode), whole.starts[0])


def quick_sample(
    chosen: Iterable[tuple[Undisturbed, Case]], *, kinds: Literal["both", "one"] = "both"
) -> Iterator[tuple[Undisturbed, Case]]:
    """Take one error and one end, a kill or a sleep, of every operation on every kind of file; all others run in soak.

    The modes take turns from one kind of file to the next.

    Args:
        chosen: the cases, each with the undisturbed run that it belongs to.
        kinds: ``both`` takes an error and an end; ``one`` takes an error or an end, by turns.
    """
    points: dict[tuple[str, str], list[tuple[Undisturbed, Case]]] = {}
    for whole, case in chosen:
        point = case.strike.point
        points.setdefault((point.operation, point.what), []).append((whole, case))
    for turn, every in enumerate(points.values()):
        errors, ends = ([c for c in every if c[1].is_error == wanted] for wanted in (True, False))
        if kinds == "one":
            some = (errors, ends) if turn % 2 else (ends, errors)
            yield from _in_turn(next(filter(None, some)), turn // 2)
            continue
        yield from _in_turn(errors, turn)
        yield from _in_turn(ends, turn)


def _in_turn(some: list[T], turn: int) -> list[T]:
    return some[turn % len(some) :][:1] if some else []


def run_case(case: Case, whole: Undisturbed) -> tuple[str, ...]:
    """Disturb a run, start it again until it is done, and check everything.

    Returns:
        The codes of the errors that runs ended with, in order.
    """
    world = whole.world()
    case.start.restore(world)
    faulty = FaultyDisk(whole.folder, case.strike)
    sleeps = case.strike.mode.startswith("sleeps")
    codes = _asleep(world, faulty) if sleeps else _again_and_again(world, faulty)
    assert faulty.struck, "nothing was disturbed"
    if sleeps:  # before anybody could repair it
        assert ending(world) == whole.ending
    check_calls(world, whole.ending, one_by_one=not sleeps)
    check_left(world)
    assert ending(world) == whole.ending
    return codes


def run_all(
    chosen: Iterable[tuple[Undisturbed, Case]],
    check: Callable[[Case, tuple[str, ...]], None] = lambda _case, _codes: None,
) -> int:
    """Run cases, and report all that fail at once.

    Args:
        chosen: the cases, each with the undisturbed run that it belongs to.
        check: a further check of a case and of the codes that its runs ended with.

    Returns:
        The number of cases.
    """
    wrong, count = [], 0
    for whole, case in chosen:
        count += 1
        try:
            check(case, run_case(case, whole))
        except Exception as error:  # noqa: BLE001 - all cases are reported at once
            wrong.append(f"{case}: {type(error).__name__}: {error}")
    assert count, "the scenario never does this"
    assert not wrong, "\n".join(wrong)
    return count


def _again_and_again(world: World, faulty: FaultyDisk) -> tuple[str, ...]:
    codes = []
    for attempt in range(MOST_RUNS):
        try:
            if attempt:
                run(world, BATCHES, f"run {attempt}")
            else:
                with use_filesystem(faulty):
                    run(world, BATCHES, "disturbed")
        except Dead:
            codes.append("")
        except SubstraitAggError as error:
            codes.append(error.code)
        except OSError:
            codes.append("FILE_NOT_USABLE")  # as the command says it
        else:
            break
    assert len(codes) <= 1, f"a disturbance of one run ended others: {codes}"
    return tuple(codes)


def _asleep(world: World, faulty: FaultyDisk) -> tuple[str, ...]:
    """Suspend a run while another one continues, then resume it in the middle of that; it has to
    end with a conflict.
    """
    outcome: list[BaseException | None] = []

    def sleeper() -> None:
        faulty.watch_this_thread()
        try:
            run(world, BATCHES, "sleeper")
            outcome.append(None)
        except BaseException as error:  # noqa: BLE001 - it is looked at below
            outcome.append(error)

    thread = threading.Thread(target=sleeper)

    def wake(batch: int = BATCHES) -> None:
        if batch >= BATCHES - 2:
            faulty.sleep.woken.set()
            thread.join(60)
            assert not thread.is_alive()

    with use_filesystem(faulty), patch("substrait_agg.commit.log.fence.LOCK_SECONDS", 0.1):
        thread.start()
        while not faulty.sleep.asleep.wait(0.02) and thread.is_alive():
            pass
        refused = None
        try:
            run(world, BATCHES, "other", wake)
        except CommitConflict as error:
            refused = error
        finally:
            wake()
    assert not faulty.sleep.overslept, "the other run waited for the sleeper"
    return _judged(refused, outcome[0])


def _judged(refused: CommitConflict | None, sleeper: BaseException | None) -> tuple[str, ...]:
    """Check that at most one of two runs stopped, and with a conflict."""
    if refused is not None:
        # The sleeper had its hand on a shared file, so that nobody could take over; or it takes over when it wakes up.
        assert sleeper is None, sleeper
        return (refused.code,)
    if sleeper is None:
        return ()
    if isinstance(sleeper, CommitConflict):
        return (sleeper.code,)
    raise AssertionError("the sleeper met something else than a conflict") from sleeper
