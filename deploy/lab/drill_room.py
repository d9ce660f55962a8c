"""One run of a drill: its directory on all mounts, its programs, and what they have told.

Times of two hosts are not compared here: their clocks may differ.
"""
import contextlib
import os
import shutil
import tempfile
import time

from drill_load import FRAME_SECONDS
from drill_look import LOCKED
from drill_programs import Load, look
from drill_verdict import Findings, names_after, names_unsure, perhaps_written
from process import LabError

QUIET_SECONDS = 2  # of load before the fault, and after its end
QUIET_CREATES = 10  # after the fault, by which it is seen that they go on
START_SECONDS = 60
READER_SECONDS = 60  # in which it makes up for a fault, on whatever host
REMOVE_SECONDS = 300
LOST_SECONDS = 2  # for programs of a host that is lost to end by themselves


class Room:
    """One run's directory on all mounts, and its programs."""

    def __init__(self, cluster, behind, frame_bytes):
        self.name = f"drill-{int(time.time() * 1000)}"
        self.cluster, self.behind, self.frame_bytes = cluster, behind, frame_bytes
        self.scratch = tempfile.mkdtemp(prefix="reelfs-drill-")
        self.loads = []
        self.still = []  # files that no program writes
        self.lost, self.ended = [], {}  # those whose host has died, or lost its session, and when

    def client(self, host):
        return self.cluster.clients[host % len(self.cluster.clients)]

    def path(self, host, *names):
        return os.path.join(self.client(host).mount_point, self.name, *names)

    def look(self, host, what, *names, more=(), seconds=None):
        return look(self.client(host), what, self.path(host, *names), *more, seconds=seconds)

    def _begin(self, host, what, name, *more):
        self.loads.append(Load(self.scratch, self.client(host), what, self.path(host, name), *more))

    def make(self):
        self.look(0, "room")

    def begin(self, databases=()):
        """All programs, and a database on each of those hosts; returns when all are at work."""
        self._begin(0, "create", "names")
        self._begin(1, "stream", "stream", self.frame_bytes)
        for host in (0, 2, 3):
            self._begin(host, "storm", f"storm{host}")
        for host in (1, 2, 3):
            self._begin(host, "append", "log", f"ws{host + 1}")
        for host in (1, 3):
            self._begin(host, "lock", LOCKED, 1000 * host)
        for host in databases:
            self._begin(host, "database", os.path.join(f"database{host}", "file"))
        patience = START_SECONDS * self.cluster.patience
        self._await(lambda: self.of("stream")[0].lines(), "the stream does not begin", patience)
        first = self.of("stream")[0].lines()[0]["due"]
        self._begin(2, "read", "stream", self.frame_bytes, first + self.behind)
        self._await(lambda: all([load.at_work() for load in self.loads]),
                    "the programs do not start", patience)

    def _await(self, condition, problem, seconds):
        until = time.monotonic() + seconds + self.behind
        while not condition():
            if time.monotonic() > until:
                raise LabError(problem)
            time.sleep(0.05)  # files that grow are not waited on

    def of(self, what):
        return [load for load in self.loads if load.what == what]

    def lose(self, ended):
        """These hosts have died, or lost their session (host → when; None: it is not known), and
        their programs do nothing of use any more."""
        self.ended.update(ended)
        lost = [load for load in self.loads if load.host in ended]
        self.loads = [load for load in self.loads if load.host not in ended]
        self.lost += lost
        for load in lost:
            load.lose()
        for load in lost:  # (whoever waits for a LUN stays in the middle of something)
            load.end(LOST_SECONDS)

    def settle(self):
        """Until the reader has come to what was written during the fault, and beyond."""
        creates, stream, read = [self.of(what)[0] for what in ("create", "stream", "read")]
        goal = len(creates.lines()) + QUIET_CREATES
        self._await(lambda: len(creates.lines()) > goal, "creates do not go on",
                    START_SECONDS * self.cluster.patience)
        frame = self._newest(stream) + QUIET_SECONDS / FRAME_SECONDS
        # One that comes no further has late frames, and is told to end like the others.
        with contextlib.suppress(LabError):
            self._await(lambda: self._newest(read) > frame, "the reader is late", READER_SECONDS)

    @staticmethod
    def _newest(load):
        return load.lines()[-1]["n"]

    def judge(self):
        findings = Findings()
        for load in self.of("lock"):  # while they hold them
            findings.locked(self.look(0, "held", LOCKED, more=load.more), load.more[0])
        for load in self.loads:
            load.stop()
        creates = self.of("create")[0]
        findings.names(self.look(1, "list", "names"),
                       {f"file{line['n']:06}" for line in creates.lines() if line["error"] is None})
        for load in self.loads + self.lost:
            if load.what == "storm":
                findings.names(self.look(1, "list", os.path.basename(load.path)),
                               names_after(load.lines()), self._unsure(load))
        findings.appends(self.look(0, "text", "log"),
                         {load.more[0]: len(load.lines()) for load in self.of("append")},
                         {load.more[0]: perhaps_written(load.lines()) for load in self.lost
                          if load.what == "append"})
        for load in self.loads + self.lost:
            if load.what == "database":
                path = load.path.split(f"/{self.name}/")[1]
                findings.database(path, self.look(1, "rows", path), load.lines(),
                                  load in self.lost)
        return findings

    def _unsure(self, storm):
        if storm not in self.lost:
            return frozenset()
        return names_unsure(storm.lines(), self.ended[storm.host], self.cluster.patience)

    def remove(self):
        self.look(0, "remove", seconds=REMOVE_SECONDS * self.cluster.patience)

    def end(self):
        for load in self.loads + self.lost:
            load.end()
        shutil.rmtree(self.scratch, ignore_errors=True)
