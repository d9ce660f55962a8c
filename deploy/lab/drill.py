"""Named drills: a fault under load, and what programs saw of it.

A drill starts programs on the cluster's mounts (drill_room.py), waits until all of them are at
work, lets its fault strike (drill_faults.py), lets them go on for a while, and compares what was
told to be done with what is there (drill_verdict.py); fsck looks at the volume itself.
"""
import contextlib
import json
import mmap
import os
import re
import shutil
import statistics
import sys
import time
from datetime import datetime

from drill_faults import FAULTS, active_and_standby, heal
from drill_load import FRAME_SECONDS
from drill_room import QUIET_SECONDS, Room
from drill_verdict import unmet, verdict_of
from process import LabError

MEASURED_BYTES, PIECE_BYTES, RATE_TRIES = 256 << 20, 4 << 20, 5
# That long a stream must find room: as long as the longest drill takes.
STREAM_SECONDS = {"cut-san-client": 120}
USUAL_STREAM_SECONDS = 60
FRAME_UNIT = 16 << 10
# Of a controller, and of a client.
MARK_LOG = re.compile(r"\[?(\d+-\d+-\d+ \d+:\d+:\d+\.\d+)\]? (?:\[\S+\] )?\[?(\w+)[\]:]+ (.*)")
MAX_TOLD = 60


def measured_rate(cluster):
    """What one client writes to the LUNs with nothing else at work, in bytes a second: the middle
    one of some tries, since the first ones of a mount are slower."""
    return statistics.median(_rate(cluster) for _ in range(RATE_TRIES))


def _rate(cluster):
    path = os.path.join(cluster.clients[1].mount_point, "drill-rate")
    piece = mmap.mmap(-1, PIECE_BYTES)
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
    try:
        began = time.monotonic()
        for _ in range(MEASURED_BYTES // PIECE_BYTES):
            os.write(fd, piece)
        os.fsync(fd)
        return MEASURED_BYTES / (time.monotonic() - began)
    finally:
        os.close(fd)
        os.unlink(path)


def frame_bytes(cluster, name, rate):
    """A quarter of the rate; less where the volume is small."""
    space = os.statvfs(cluster.clients[1].mount_point)
    seconds = STREAM_SECONDS.get(name, USUAL_STREAM_SECONDS)
    most = space.f_bavail * space.f_frsize / seconds
    return max(int(min(rate / 4, most) * FRAME_SECONDS) // FRAME_UNIT, 1) * FRAME_UNIT


def _logged(cluster, since, until):
    """What controllers and clients said meanwhile."""
    for host in cluster.mdcs + cluster.clients:
        with open(host.log_path, errors="replace") as log:
            for line in log:
                mark = MARK_LOG.match(line)
                if mark is None or (mark[2] == "info" and host in cluster.clients):
                    continue
                when = datetime.strptime(mark[1], "%Y-%m-%d %H:%M:%S.%f").timestamp()
                if since <= when <= until:
                    yield when, f"{host.name}: {mark[3]}"


def _session_end(client, since):
    """When the client said that its session is over; None: it did not."""
    with open(client.log_path, errors="replace") as log:
        marks = [MARK_LOG.match(line) for line in log if "the session is over" in line]
    times = [datetime.strptime(mark[1], "%Y-%m-%d %H:%M:%S.%f").timestamp()
             for mark in marks if mark]
    return min((when for when in times if when >= since), default=None)


def _run(cluster, name, behind, size):
    room, events = Room(cluster, behind, size), []
    before, pids = active_and_standby(cluster), {mdc: mdc.process.pid() for mdc in cluster.mdcs}

    def tell(what):
        events.append((time.time(), what))

    try:
        room.begin()
        time.sleep(QUIET_SECONDS)  # the load that the fault meets
        FAULTS[name](cluster, before, tell)
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
    after = cluster.active()
    ended = [mdc.name for mdc in cluster.mdcs if mdc.process.pid() != pids[mdc]]
    shutil.rmtree(room.path(0))
    verdict = verdict_of(results, findings, cluster.fsck())
    return {"verdict": verdict, "programs": results, "ended": ended,
            "active": {"before": before.name, "after": after.name},
            "events": [{"ms": round(1000 * (when - struck)), "what": what}
                       for when, what in sorted(events)]}


def run_drill(cluster, name, runs=1, behind=10.0, as_json=False):
    """0: all promises kept; 1: something is wrong; 2: only slower than promised."""
    if cluster.spec.backend == "vm":
        raise LabError("a drill's programs run on this machine's mounts, and machines have their "
                       "own; see tests/e2e/test_machines.py for what happens to them")
    if len(cluster.clients) < 2:
        raise LabError("a drill needs two clients")
    rate = measured_rate(cluster)
    size = frame_bytes(cluster, name, rate)
    done = []
    try:
        for number in range(runs):
            done.append(_run(cluster, name, behind, size))
            if not as_json:
                _print_run(name, number, done[-1])
    except BaseException:
        with contextlib.suppress(LabError):
            heal(cluster)
        raise
    verdicts = [run["verdict"] for run in done]
    wrong = [line for verdict in verdicts for line in verdict["wrong"]]
    slow = unmet(name, verdicts, cluster.spec.session_lease_ms)
    gaps = sorted(verdict["gap_ms"] for verdict in verdicts)
    summary = {"drill": name, "lun_bytes_per_second": round(rate), "frame_bytes": size,
               "gap_ms": {"median": gaps[len(gaps) // 2], "worst": gaps[-1]}, "wrong": wrong,
               "unmet": slow}
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
    verdict = run["verdict"]
    frames = verdict["late_frames"]
    print(f"verdict: gap {verdict['gap_ms']} ms, appends {verdict['append_ms']} ms; "
          f"errors {verdict['errors']}; "
          f"lost {verdict['lost']}; doubled {verdict['doubled']}; locks {verdict['locks']}; "
          f"frames late: stream {frames['stream']}, reader {frames['read']}; "
          f"fsck {verdict['fsck']}\n", flush=True)


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
