"""Named drills: a fault under load, and what programs saw of it.

A drill starts programs on the cluster's mounts (drill_room.py), waits until all of them are at
work, lets its fault strike (drill_faults.py), lets them go on for a while, and compares what was
told to be done with what is there (drill_verdict.py); fsck looks at the volume itself.
"""
import contextlib
import json
import os
import statistics
import sys
import time

from drill_faults import FAULTS, active_and_standby, check, heal
from drill_jobs import mib
from drill_load import FRAME_SECONDS
from drill_programs import give_programs, look
from drill_rearrange import Rearrange
from drill_rearrange import check as check_pools
from drill_room import QUIET_SECONDS, Room
from drill_verdict import unmet, verdict_of
from process import LabError

# How much is written to know the rate, and how often; less where no times are judged.
MEASURED_BYTES, RATE_TRIES = 256 << 20, 5
FEW_BYTES, FEW_TRIES = 16 << 20, 3
RATE_SECONDS = 600
# That long a stream must find room: as long as the longest drill takes.
STREAM_SECONDS = {"cut-san-client": 120, "rearrange": 300}
USUAL_STREAM_SECONDS = 60
FRAME_UNIT = 16 << 10
MAX_TOLD = 60
REARRANGE = "rearrange"
DRILLS = sorted([*FAULTS, REARRANGE])
UNTIMED = "times are not judged: the hosts are emulated"


def measured_rate(cluster):
    """What one client writes to the LUNs with nothing else at work, in bytes a second: the middle
    one of some tries, since the first ones of a mount are slower."""
    client = cluster.clients[1]
    size, tries = ((MEASURED_BYTES, RATE_TRIES) if cluster.is_timed else (FEW_BYTES, FEW_TRIES))
    return statistics.median(look(client, "rate", os.path.join(client.mount_point, "drill-rate"),
                                  size, tries, seconds=RATE_SECONDS))


def frame_bytes(cluster, name, rate):
    """A quarter of the rate; less where the volume is small."""
    client = cluster.clients[1]
    seconds = STREAM_SECONDS.get(name, USUAL_STREAM_SECONDS) * cluster.patience
    most = look(client, "space", client.mount_point) / seconds
    return max(int(min(rate / 4, most) * FRAME_SECONDS) // FRAME_UNIT, 1) * FRAME_UNIT


def _logged(cluster, since, until):
    """What controllers and clients said meanwhile."""
    for host in cluster.mdcs + cluster.clients:
        for when, level, words in host.marks(since):
            if when <= until and not (level == "info" and host in cluster.clients):
                yield when, f"{host.name}: {words}"


def _session_end(client, since):
    """When the client said that its session is over; None: it did not."""
    return min((when for when, _, words in client.marks(since) if "the session is over" in words),
               default=None)


class Fault:
    """A drill that is a fault alone."""
    databases, steps, wrong = (), (), ()

    def __init__(self, name, _number, room, tell):
        self.strikes, self.cluster, self.tell = FAULTS[name], room.cluster, tell

    def prepare(self):
        """What has to be there before programs begin."""

    def strike(self, active):
        self.strikes(self.cluster, active, self.tell)

    def look_again(self):
        """When all hosts run again."""


def _run(cluster, name, number, behind, size):
    room, events = Room(cluster, behind, size), []
    before, lives = active_and_standby(cluster), {mdc: mdc.life() for mdc in cluster.mdcs}

    def tell(what):
        events.append((time.time(), what))

    story = (Rearrange if name == REARRANGE else Fault)(name, number, room, tell)
    try:
        room.make()
        story.prepare()
        room.begin(story.databases)
        time.sleep(QUIET_SECONDS)  # the load that the fault meets
        story.strike(before)
        room.lose({client.name: _session_end(client, events[0][0]) for client in cluster.clients
                   if not client.running() or cluster.network.cuts(client.name)})
        room.settle()
        findings = room.judge()
        results = [load.result() for load in room.loads]
        creates = room.of("create")[0].lines()
    except LabError:
        for when, what in events:  # how it came so far
            print(f"  {when - events[0][0]:8.3f} s  {what}", file=sys.stderr)
        raise
    finally:
        room.end()
    struck = events[0][0]
    events += list(_logged(cluster, struck, time.time()))[:MAX_TOLD]
    last, first = max(zip(creates, creates[1:]),
                      key=lambda pair: pair[1]["done"] - pair[0]["done"])
    events += [(last["done"], "the last create before the longest pause is done"),
               (first["done"], "creates go on")]
    heal(cluster)
    after = cluster.await_active()
    story.look_again()
    ended = [mdc.name for mdc in cluster.mdcs if mdc.life() != lives[mdc]]
    room.remove()
    verdict = verdict_of(results, findings, cluster.fsck(), story.wrong)
    return {"verdict": verdict, "programs": results, "steps": list(story.steps), "ended": ended,
            "active": {"before": before.name, "after": after.name},
            "events": [{"ms": round(1000 * (when - struck)), "what": what}
                       for when, what in sorted(events)]}


def run_drill(cluster, name, runs=1, behind=10.0, as_json=False):
    """0: all promises kept; 1: something is wrong; 2: only slower than promised."""
    check(cluster, name)
    if name == REARRANGE:
        check_pools(cluster)
    give_programs(cluster.clients)
    rate = measured_rate(cluster)
    size = frame_bytes(cluster, name, rate)
    done = []
    try:
        for number in range(runs):
            if number:  # a machine that lost its power has lost them, too
                give_programs(cluster.clients)
            done.append(_run(cluster, name, number, behind, size))
            if not as_json:
                _print_run(name, number, done[-1])
    except BaseException:
        with contextlib.suppress(LabError):
            heal(cluster)
        raise
    verdicts = [run["verdict"] for run in done]
    wrong = [line for verdict in verdicts for line in verdict["wrong"]]
    slow = unmet(name, verdicts, cluster.spec.session_lease_ms) if cluster.is_timed else []
    gaps = sorted(verdict["gap_ms"] for verdict in verdicts)
    summary = {"drill": name, "lun_bytes_per_second": round(rate), "frame_bytes": size,
               "gap_ms": {"median": gaps[len(gaps) // 2], "worst": gaps[-1]}, "wrong": wrong,
               "unmet": slow, "times": "judged" if cluster.is_timed else UNTIMED}
    if as_json:
        print(json.dumps({**summary, "runs": done}, indent=2))
    else:
        _print_summary(summary, verdicts)
    return 1 if wrong else 2 if slow else 0


def _print_run(name, number, run):
    print(f"drill {name}, run {number + 1}")
    for event in run["events"]:
        print(f"  {event['ms'] / 1000:8.3f} s  {event['what']}")
    print(f"\n{'PROGRAM':12} {'DONE':>7} {'ERRORS':>7} {'LONGEST PAUSE':>14} {'LATE > 1 s':>11}")
    for result in run["programs"]:
        print(f"{result['program']:12} {result['operations']:7} {len(result['errors']):7} "
              f"{result['longest_pause_ms']:11} ms {result['late']:11}")
    if run["steps"]:
        _print_steps(run["steps"])
    verdict = run["verdict"]
    frames = verdict["late_frames"]
    print(f"verdict: gap {verdict['gap_ms']} ms, appends {verdict['append_ms']} ms; "
          f"errors {verdict['errors']}; "
          f"lost {verdict['lost']}; doubled {verdict['doubled']}; locks {verdict['locks']}; "
          f"frames late: stream {frames['stream']}, reader {frames['read']}; "
          f"fsck {verdict['fsck']}\n", flush=True)


def _print_steps(steps):
    """The LUNs' bytes: all that is moved is read, written, and read back; and ideally what has to
    be moved is read and written."""
    print(f"\n{'STEP':24} {'SECONDS':>8} {'MOVED':>10} {'TO MOVE':>10} {'BROKEN':>7} "
          f"{'LUN BYTES':>10} {'IDEAL':>10}")
    for step in steps:
        moved, least = step.get("moved_bytes", 0), step.get("to_move_bytes", 0)
        print(f"{step['step']:24} {step['seconds']:8.1f} {mib(moved):>10} {mib(least):>10} "
              f"{step.get('broken_moves', 0):7} {mib(3 * moved):>10} "
              f"{mib(None if least is None else 2 * least):>10}")
    print()


def _print_summary(summary, verdicts):
    gap = summary["gap_ms"]
    print(f"{summary['drill']}: {len(verdicts)} runs, gap {gap['median']} ms (median), "
          f"{gap['worst']} ms (worst); stream of "
          f"{summary['frame_bytes'] * 24 / 1e6:.0f} MB/s, a LUN rate of "
          f"{summary['lun_bytes_per_second'] / 1e6:.0f} MB/s")
    for line in summary["wrong"]:
        print(f"WRONG: {line}")
    for line in summary["unmet"]:
        print(f"NOT MET: {line}")
    if summary["times"] == UNTIMED:
        print(UNTIMED)
