"""Many rounds of one run that is killed at a random moment and started again, over streams with a random seed each.

``python -m tests.kills.rounds --rounds 25 --seed 3`` runs some and tells of them.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from tests.kills.process_killer import Victims, members, strike
from tests.kills.run import PATIENCE, Place, check_end, check_now
from tests.kills.stream import make_stream

BATCHES = 50
LEAVE = 4
"""Batches that are left for the run that ends the stream."""
CLOSING_SECONDS = 60.0
"""How long what a killed driver leaves behind may take to end."""

VICTIMS: dict[Victims, int] = {"all": 4, "driver": 2, "jvm": 2, "workers": 2}
"""Who is killed, and how often relative to the others."""

Moment = Literal["start", "version", "driver", "worker"]
MOMENTS: dict[Moment, int] = {"start": 1, "version": 5, "driver": 3, "worker": 3}
"""When: after a while; a while after some versions; at an operation on a file of the driver, or of a task."""


@dataclass(frozen=True)
class Kill:
    """A kill.

    Attributes:
        victims: whom it is for.
        moment: when.
        number: versions before it, or the ordinal of the operation.
        delay: seconds that it comes after that.
    """

    victims: Victims
    moment: Moment
    number: int
    delay: float


@dataclass
class RoundCounts:
    """What has happened.

    Attributes:
        struck: rounds by victims and moment.
        endings: how the runs ended: killed, an error code, or done.
        missed: rounds that ended before they were struck; they do not count.
        streams: how often the stream went to its end, and all was right.
        orphans: sessions of drivers that were killed alone; what they have left behind may be at work yet while the next run begins.
    """

    struck: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    missed: int = 0
    streams: int = 0
    orphans: list[int] = field(default_factory=list)

    @property
    def rounds(self) -> int:
        """Rounds in which something was killed."""
        return sum(self.struck.values())


def drawn(rng: random.Random) -> Kill:
    """A kill at random."""
    victims = rng.choices(list(VICTIMS), list(VICTIMS.values()))[0]
    # Between jobs there may be no worker to be killed.
    moments = {"worker": 1} if victims == "workers" else MOMENTS
    moment = cast("Moment", rng.choices(list(moments), list(moments.values()))[0])
    if moment == "start":
        return Kill(victims, moment, 0, rng.uniform(3, 9))
    if moment == "version":
        return Kill(victims, moment, rng.randint(1, 4), rng.uniform(0, 0.8))
    return Kill(victims, moment, rng.randint(1, 900 if moment == "driver" else 90), 0.0)


def one_round(place: Place, kill: Kill, tally: RoundCounts) -> None:
    """Start the command, kill, and wait for the end; the committed versions have to be correct."""
    # A worker that a killed driver left behind may strike yet: it must not write the mark of this round.
    mark = place.folder / f"struck-{tally.rounds + tally.missed}"
    beginning = place.newest()
    inside = None
    if kill.moment in ("driver", "worker"):
        inside = {
            "KILL_ROLE": kill.moment, "KILL_AT": str(kill.number),
            "KILL_VICTIMS": kill.victims, "KILL_MARK": str(mark),
        }  # fmt: skip
    process = place.start(inside)
    try:
        if inside is None:
            _await_moment(place, process, kill, beginning)
            struck = 0 if process.poll() is not None else strike(process.pid, kill.victims)
        status = _ended(process, place)
        if inside is not None:
            struck = int(mark.read_text() or 1) if mark.exists() else 0
        close(tally.orphans)
        tally.orphans.append(process.pid)
        if kill.victims != "driver":
            close(tally.orphans)
    except BaseException:
        strike(process.pid, "all")
        process.wait()
        raise
    if not struck:
        tally.missed += 1
    else:
        tally.struck[f"{kill.victims} at {kill.moment}"] += 1
        tally.endings[f"{kill.victims}: {_end(place, status)}"] += 1
    check_now(place)
    with place.log.open("a") as log:
        log.write(f"--- {kill} struck {struck}, ended with {status}, version {place.newest()}\n")


def _await_moment(
    place: Place, process: subprocess.Popen[bytes], kill: Kill, beginning: int
) -> None:
    deadline = time.monotonic() + PATIENCE
    while (
        kill.moment == "version"
        and place.newest() < beginning + kill.number
        and process.poll() is None
    ):
        assert time.monotonic() < deadline, "no new version"
        time.sleep(0.002)
    time.sleep(kill.delay)


def _ended(process: subprocess.Popen[bytes], place: Place) -> int:
    try:
        return process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"the run hangs: {place.log.read_text()[-3000:]}") from None


def close(orphans: list[int]) -> None:
    """Child processes of a killed driver end by themselves."""
    deadline = time.monotonic() + CLOSING_SECONDS
    while orphans:
        while left := members(orphans[0]):
            assert time.monotonic() < deadline, f"left behind: {left}"
            time.sleep(0.05)
        del orphans[0]


def _end(place: Place, status: int) -> str:
    if status in (0, -9):
        return "done" if status == 0 else "killed"
    last = place.log.read_text().rpartition("error[")[2]
    return last.partition("]")[0] if last else f"status {status}"


@dataclass
class Stage:
    """A stream, and the run over it that nothing disturbs.

    Args:
        folder: for all files.
        seed: of the stream.
        batches: of the stream.
        local: whether the local executor computes that run; otherwise it is the command, too.
    """

    folder: Path
    seed: int
    batches: int
    local: bool = False

    def __post_init__(self) -> None:
        self.stream = make_stream(self.folder / "stream", self.seed, self.batches)
        self.whole = Place(self.folder / "whole", self.stream)
        finish = self.whole.finish_locally if self.local else self.whole.finish
        finish()

    def once(self, name: str, kills: Iterator[Kill], tally: RoundCounts) -> None:
        """Rounds until the stream is nearly done or there are no more kills, then its end.

        All that is left is compared with the model and with the undisturbed run.
        """
        killed = Place(self.folder / name, self.stream)
        try:
            for kill in kills:
                one_round(killed, kill, tally)
                if killed.newest() >= self.batches - LEAVE:
                    break
            killed.finish()
            close(tally.orphans)
            assert not list(killed.checkpoint.rglob("*.crc")), "a program was started per file"
        finally:
            for session in tally.orphans:
                strike(session, "all")
        check_end(killed, self.whole)
        tally.streams += 1


def campaign(folder: Path, seed: int, rounds: int, batches: int = BATCHES) -> RoundCounts:
    """Rounds over a stream, which restarts at its end.

    Args:
        folder: for all files.
        seed: of everything that is random.
        rounds: in which something is killed; the last one goes to the end of the stream.
        batches: of the stream.
    """
    rng, tally = random.Random(seed), RoundCounts()
    stage = Stage(folder / "stage", rng.randrange(1 << 30), batches)

    def kills() -> Iterator[Kill]:
        while tally.rounds < rounds:
            yield drawn(rng)

    while tally.rounds < rounds:
        stage.once(f"killed-{tally.streams}", kills(), tally)
    return tally


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batches", type=int, default=BATCHES)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    print(folder, flush=True)
    began = time.monotonic()
    tally = campaign(folder, given.seed, given.rounds, given.batches)
    told = {"seed": given.seed, "rounds": tally.rounds, **vars(tally), "seconds": round(time.monotonic() - began)}  # fmt: skip
    print(json.dumps(told, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
