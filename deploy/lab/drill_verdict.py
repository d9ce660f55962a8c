"""What must be there after a drill, by what its programs were told is done.

Each check is of what was seen (drill_look.py), and notes lines that say what is wrong. What was
acknowledged and is not there is lost; what is there twice, or although it was removed, was done
twice.
"""
import itertools

from drill_database import changes_after
from drill_load import FRAME_SECONDS, LINE_BYTES, line_of, storm_ops

LATE_SECONDS = 1.0
# A host tells of names within a tick, 0.05 s, and its log of its own session as soon as it sees it.
UNTOLD_SECONDS, LOG_SECONDS = 0.2, 0.1
# A program that lost its power with its host may have done as much of which nothing was heard.
UNHEARD_OPS, UNHEARD_LINES = 200, 50
FRAMED = ("stream", "read")  # programs with a frame due each FRAME_SECONDS
GAP_MS = 3000
COMMAND_MS = 20_000  # of an iSCSI path, as long as its URL says nothing else
WORST_GAP_MS = {"kill-active": 5000}  # of one run; the median's limit is the same for all


class Findings:
    """`lost`, `doubled`, `locks`: lines, empty when all is well."""

    def __init__(self):
        self.lost, self.doubled, self.locks = [], [], []

    def names(self, found, expected, unsure=frozenset()):
        """`unsure`: what somebody died over may be there or not."""
        found, expected = set(found) - unsure, expected - unsure
        self.lost += [f"{name} was made, and is not there" for name in sorted(expected - found)]
        self.doubled += [f"{name} should not be there" for name in sorted(found - expected)]

    def appends(self, text, told, perhaps=None):
        """`told`: who → how many lines were acknowledged, one after the other. `perhaps`: those
        that somebody who has died since may have written."""
        if len(text) % LINE_BYTES:
            self.lost.append(f"the log has {len(text)} bytes, which are no whole lines")
        counts = {}
        for at in range(0, len(text), LINE_BYTES):
            line = text[at:at + LINE_BYTES]
            counts[line] = counts.get(line, 0) + 1
        for who, count in told.items():
            for number in range(count):
                times = counts.pop(line_of(who, number), 0)
                if times != 1:
                    (self.lost if times == 0 else self.doubled).append(
                        f"line {number} of {who} is there {times} times")
        for who, count in (perhaps or {}).items():
            for number in range(count):
                if counts.pop(line_of(who, number), 0) > 1:
                    self.doubled.append(f"line {number} of {who} is there more than once")
        self.doubled += [f"the log holds a line that nobody wrote: {line[:40]!r}"
                         for line in counts]

    def database(self, name, found, told, is_lost):
        """All of each acknowledged change, and nothing of another one; of a program whose host has
        died (`is_lost`), perhaps what it did last."""
        self.lost += [f"{name}: {line}" for line in found["wrong"]]
        done = [line["n"] for line in told if line["error"] is None]
        following = done[-1] + 1 if done else 0
        unheard = list(range(following, following + UNHEARD_LINES)) if is_lost else []
        if not any(found["last"] == changes_after(done + unheard[:count])
                   for count in range(len(unheard) + 1)):
            newest = max(found["last"], default=None)
            self.lost.append(f"{name}: its rows, the newest of change {newest}, are not as "
                             f"{len(done)} changes have left them")

    def locked(self, held, first):
        """Somebody else must hold the range."""
        if not held:
            self.locks.append(f"the lock from byte {first} on is not held any more")


def names_after(lines):
    """What a storm's directory holds, by the changes that succeeded."""
    names = set()
    for line in lines:
        if line["error"] is None:
            kind, name, *more = line["op"]
            if kind in ("rename", "remove", "rmdir"):
                names.remove(name)
            if kind not in ("remove", "rmdir"):
                names.add((more or [name])[0])
    return names


def names_unsure(lines, ended=None, patience=1):
    """Of a host that died or lost its session at `ended` (else: when its first change failed): what
    it could not do, and what it had not told yet. Where nothing failed, the program has lost its
    power, too: what it did last was heard by nobody. `patience`: how much slower the host is."""
    if not lines:
        return set()
    failed = [line for line in lines if line["error"]]
    if ended is None:
        ended = min((line["due"] for line in failed), default=lines[-1]["done"])
    untold = [line for line in lines if ended - UNTOLD_SECONDS * patience <= line["done"]
              <= ended + LOG_SECONDS * patience]
    ops = [line["op"] for line in failed + untold]
    if not failed:
        following = lines[-1]["n"] + 1
        ops += itertools.islice(storm_ops(), following, following + UNHEARD_OPS)
    return {name for op in ops for name in op[1:]}


def acknowledged(lines):
    return sum(line["error"] is None for line in lines)


def perhaps_written(lines):
    """How many lines a program may have appended whose host died: with the one that failed, or,
    where it has lost its power, some that nobody heard of."""
    return acknowledged(lines) + (1 if any(line["error"] for line in lines) else UNHEARD_LINES)


def longest_pause_ms(lines):
    pauses = [after["done"] - before["done"] for before, after in zip(lines, lines[1:])]
    return round(1000 * max(pauses, default=0))


def late(lines, framed_until=None):
    """With `framed_until`, also the frames that were due by then and have never come."""
    done = sum(line["done"] - line["due"] > LATE_SECONDS for line in lines)
    if framed_until is None or not lines:
        return done
    overdue = framed_until - LATE_SECONDS - lines[-1]["due"]
    return done + max(int(overdue / FRAME_SECONDS), 0)


def verdict_of(results, findings, fsck, more=()):
    """One run in figures; `wrong` are lines for people, with `more` of them."""
    by = {}
    for result in results:
        by.setdefault(result["what"], []).append(result)
    errors = [f"{result['program']}: {error}" for result in results for error in result["errors"]]
    clean = fsck is None or fsck.returncode == 0
    wrong = errors + findings.lost + findings.doubled + findings.locks + list(more)
    if not clean:
        wrong.append(f"fsck: {(fsck.stdout + fsck.stderr).strip()[-500:]}")
    return {"gap_ms": by["create"][0]["longest_pause_ms"],
            "append_ms": max((result["longest_pause_ms"] for result in by.get("append", [])),
                             default=0), "errors": len(errors),
            "lost": len(findings.lost), "doubled": len(findings.doubled),
            "locks": "lost" if findings.locks else "held",
            "late_frames": {what: sum(result["late"] for result in by[what])
                            for what in FRAMED},
            "fsck": "clean" if clean else "not clean", "wrong": wrong}


def limits_ms(name, lease_ms):
    """Of the median gap, and of the longest one."""
    if name == "kill-active-and-client":
        return GAP_MS + lease_ms, GAP_MS + lease_ms
    return GAP_MS, WORST_GAP_MS.get(name, GAP_MS)


def cut_off_ms(lease_ms):
    """How long others wait for a host that has lost the SAN: until a command of it has timed out,
    or a recall has stood still for a lease, and it has asked twice (docs/failover.md)."""
    return max(lease_ms, COMMAND_MS) + 2 * lease_ms // 5 + GAP_MS


def unmet(name, verdicts, lease_ms):
    """Promises of time that the runs of a drill did not keep, where a client's lease is so long."""
    gaps = sorted(verdict["gap_ms"] for verdict in verdicts)
    median, worst = gaps[len(gaps) // 2], gaps[-1]
    lines = []
    of_median, of_worst = limits_ms(name, lease_ms)
    if len(gaps) > 1 and median > of_median:
        lines.append(f"the median gap is {median} ms, and should be {of_median} ms at most")
    if worst > of_worst:
        lines.append(f"the longest gap is {worst} ms, and should be {of_worst} ms at most")
    if name == "cut-san-client":
        most = cut_off_ms(lease_ms)
        slowest = max(verdict["append_ms"] for verdict in verdicts)
        if slowest > most:
            lines.append(f"appends beside the host that was cut off have waited for {slowest} ms, "
                         f"and should for {most} ms at most")
    for what in FRAMED:
        frames = sum(verdict["late_frames"][what] for verdict in verdicts)
        if frames:
            lines.append(f"{frames} frames of the {what} program came more than a second late")
    return lines
