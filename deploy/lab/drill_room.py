"""One run of a drill: its directory on all mounts, its programs, and what they have told."""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from drill_verdict import (FRAMED, Findings, acknowledged, late, longest_pause_ms, names_after,
                           names_unsure)
from process import LabError

LOAD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "drill_load.py")
QUIET_SECONDS = 2  # of load before the fault, and after its end
START_SECONDS = 60
LOST_SECONDS = 2  # for programs of a host that is lost to end by themselves


class Load:
    """One program, and what it has told so far."""

    def __init__(self, scratch, host, what, path, *more):
        self.what, self.host, self.path, self.more = what, host, path, more
        self.name = f"{host} {what}"
        self.stopped = None  # when it was told to end
        self._lines, self._read_bytes = [], 0
        self.out = os.path.join(scratch, f"{len(os.listdir(scratch))} {self.name}")
        with open(self.out, "wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-B", LOAD, what, path, *map(str, more)], stdout=out,
                stdin=subprocess.PIPE)

    def lines(self):
        """A line that it is still writing is none yet."""
        with open(self.out, "rb") as told:
            told.seek(self._read_bytes)
            news = told.read()
        whole = news[:news.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        self._lines += map(json.loads, whole.splitlines())
        return self._lines

    def at_work(self):
        if self.process.poll() is not None:
            raise LabError(f"the {self.what} program on {self.host} has ended: see above")
        return len(self.lines()) > 3

    def stop(self):
        self.stopped = time.time()
        self.process.stdin.close()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise LabError(f"the {self.what} program hangs in {self.path}")

    def result(self):
        lines = self.lines()
        return {"program": self.name, "what": self.what, "operations": len(lines),
                "errors": [line["error"] for line in lines if line["error"]],
                "longest_pause_ms": longest_pause_ms(lines),
                "late": late(lines, self.stopped if self.what in FRAMED else None)}


class Room:
    """One run's directory on all mounts, and its programs."""

    def __init__(self, cluster, behind, frame_bytes):
        self.name = f"drill-{int(time.time() * 1000)}"
        self.cluster, self.behind, self.frame_bytes = cluster, behind, frame_bytes
        self.scratch = tempfile.mkdtemp(prefix="reelfs-drill-")
        self.loads = []
        self.lost, self.ended = [], {}  # those whose host has died, or lost its session, and when

    def path(self, host, *names):
        clients = self.cluster.clients
        return os.path.join(clients[host % len(clients)].mount_point, self.name, *names)

    def _begin(self, host, what, names, *more):
        client = self.cluster.clients[host % len(self.cluster.clients)].name
        path = self.path(host, *names)
        if what in ("create", "storm"):
            os.mkdir(path)
        self.loads.append(Load(self.scratch, client, what, path, *more))

    def begin(self):
        """All programs; returns when each of them is at work."""
        os.mkdir(self.path(0))
        with open(self.path(0, "locked"), "wb"):
            pass
        self._begin(0, "create", ["names"])
        self._begin(1, "stream", ["stream"], self.frame_bytes)
        for host in (0, 2, 3):
            self._begin(host, "storm", [f"storm{host}"])
        for host in (1, 2, 3):
            self._begin(host, "append", ["log"], f"ws{host + 1}")
        for host in (1, 3):
            self._begin(host, "lock", ["locked"], 1000 * host)
        self._await(lambda: self.of("stream")[0].lines(), "the stream does not begin")
        first = self.of("stream")[0].lines()[0]["due"]
        self._begin(2, "read", ["stream"], self.frame_bytes, first + self.behind)
        self._await(lambda: all([load.at_work() for load in self.loads]),
                    "the programs do not start")

    def _await(self, condition, problem):
        until = time.monotonic() + START_SECONDS + self.behind
        while not condition():
            if time.monotonic() > until:
                raise LabError(problem)
            time.sleep(0.05)  # files that grow are not waited on

    def of(self, what):
        return [load for load in self.loads if load.what == what]

    def lose(self, ended):
        """These hosts have died, or lost their session (host → when; None: it is not known), and
        their programs do nothing of use any more."""
        self.ended = ended
        self.lost = [load for load in self.loads if load.host in ended]
        self.loads = [load for load in self.loads if load.host not in ended]
        for load in self.lost:
            load.process.stdin.close()
        for load in self.lost:  # (whoever waits for a LUN stays in the middle of something)
            with contextlib.suppress(subprocess.TimeoutExpired):
                load.process.wait(timeout=LOST_SECONDS)
            load.process.kill()
            load.process.wait()

    def settle(self):
        """Until the reader has come to what was written during the fault, and beyond."""
        creates, read = self.of("create")[0], self.of("read")[0]
        self._await(lambda: creates.lines()[-1]["done"] > time.time() - 0.5, "creates do not go on")
        goal = time.time() + QUIET_SECONDS
        # One that comes no further has late frames, and is told to end like the others.
        with contextlib.suppress(LabError):
            self._await(lambda: read.lines()[-1]["due"] - self.behind > goal, "the reader is late")

    def judge(self):
        findings = Findings()
        for load in self.of("lock"):  # while they hold them
            findings.locked(self.path(0, "locked"), load.more[0])
        for load in self.loads:
            load.stop()
        creates = self.of("create")[0]
        findings.names(self.path(1, "names"), {f"file{line['n']:06}" for line in creates.lines()
                                               if line["error"] is None})
        for load in self.loads + self.lost:
            if load.what == "storm":
                lines = load.lines()
                findings.names(self.path(1, os.path.basename(load.path)), names_after(lines),
                               unsure=names_unsure(lines, self.ended[load.host])
                               if load in self.lost else set())
        findings.appends(self.path(0, "log"),
                         {load.more[0]: len(load.lines()) for load in self.of("append")},
                         {load.more[0]: acknowledged(load.lines()) for load in self.lost
                          if load.what == "append"})
        return findings

    def end(self):
        for load in self.loads + self.lost:
            load.process.kill()
            load.process.wait()
        shutil.rmtree(self.scratch, ignore_errors=True)
