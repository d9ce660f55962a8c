"""Daemons killed at seeded random moments under a mixed load: nothing acknowledged is lost.

Each moment has workers (crash_load.py) of its own, two on each mount, in one directory that both
share. Some daemons get SIGKILL; the volume is checked as they left it; they start again; workers
whose host lived must go on without an error, and everything must be as their records allow
(crash_model.py). REEL_SEED=N begins with another seed; one moment is one seed.
"""
import hashlib
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from crash_model import Wrong, read_record, verify

# A short lease: whoever waits for a dead host waits that long. Small LUNs: fsck is quick.
CLUSTER = {"session_lease_ms": 3000, "luns": "meta=1x1G,data=2x2G"}
LONG = bool(os.environ.get("REEL_LONG"))
MOMENTS = int(os.environ.get("REEL_MOMENTS", "200" if LONG else "8"))
FIRST_SEED = int(os.environ.get("REEL_SEED", "1"))
LOAD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "crash_load.py")
HOSTS = ("ws1", "ws2")
VICTIMS = (("mdc1",), ("mdc1",), ("ws1",), ("ws2",), ("mdc1", "ws1"), ("mdc1", "ws1", "ws2"))
WORKERS_EACH = 2
END_SECONDS = 60


class Worker:
    def __init__(self, cluster, host, directory, number, seed):
        self.host, self.prefix = host, f"{host}.{number}."
        self.record = os.path.join(cluster.scratch, f"record.{seed}.{self.prefix}")
        self.directory = directory  # its name in the mount
        self.process = subprocess.Popen(
            [sys.executable, "-B", LOAD, os.path.join(cluster.dir, host, directory), self.record,
             self.prefix, str(seed * 10 + number)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def await_ready(self):
        assert self.process.stdout.readline() == "ready\n", "the load does not start"

    def stop(self):
        """Its exit status, after its operation in progress."""
        self.process.stdin.close()
        return self.process.wait(timeout=END_SECONDS)


class Moment:
    def __init__(self, cluster, seed):
        self.cluster, self.seed = cluster, seed
        self.random = random.Random(seed)
        self.victims = self.random.choice(VICTIMS)
        self.directory = f"moment{seed}"
        self.operations = 0

    def run(self):
        os.mkdir(os.path.join(self.cluster.ws1, self.directory))
        workers = [Worker(self.cluster, host, self.directory, number, self.seed)
                   for host in HOSTS for number in range(WORKERS_EACH)]
        try:
            for worker in workers:
                worker.await_ready()
            time.sleep(self.random.uniform(0.05, 1.2))  # tidy: sleep: the random moment
            self._kill()
            if "mdc1" in self.victims:
                self._check_volume()
            for host in sorted(self.victims):
                self.cluster.start(host)
            if self.random.random() < 0.5:
                time.sleep(0.3)  # tidy: sleep: load after the restart, too
            statuses = [worker.stop() for worker in workers]
        finally:
            for worker in workers:
                worker.process.kill()
                worker.process.wait()
        for worker, status in zip(workers, statuses):
            self._verify(worker, status)

    def _kill(self):
        pids = {name: host["pid"] for name, host in self.cluster.hosts().items()}
        order = list(self.victims)
        self.random.shuffle(order)
        ends = [os.pidfd_open(pids[host]) for host in order]
        for end in ends:
            signal.pidfd_send_signal(end, signal.SIGKILL)
        for end in ends:
            os.close(end)
        for host in order:
            pid = self.cluster.hosts()[host]["pid"]
            if pid is not None:
                self.cluster.kill(host)  # waits for the end

    def _check_volume(self):
        """As the dead controller left it."""
        done = self.cluster.tool("fsck.reelfs", "reel", "--luns", self.cluster.luns())
        assert done.returncode == 0, f"seed {self.seed}: after the kill of {self.victims}: " \
                                     f"{done.stdout}{done.stderr}"

    def _verify(self, worker, status):
        model, unfinished, count, error = read_record(worker.record)
        self.operations += count
        crashed = worker.host in self.victims
        where = f"seed {self.seed}, killed {'+'.join(self.victims)}, worker {worker.prefix}"
        if not crashed:
            assert status == 0 and error is None, f"{where}: ended with {status}: {error}"
            assert unfinished is None
        mount = os.path.join(self.cluster.dir, self.random.choice(HOSTS))
        try:
            verify(os.path.join(mount, self.directory), worker.prefix, model, unfinished, crashed,
                   alone="mdc1" not in self.victims)
        except Wrong as wrong:
            raise AssertionError(f"{where}: {wrong}") from None


def digest(directory):
    """Of all names and bytes below it, which are durable then, whichever host wrote them."""
    sums = {}
    for name in sorted(os.listdir(directory)):
        with open(os.path.join(directory, name), "rb") as file:
            sums[name] = hashlib.sha256(file.read()).hexdigest()  # takes it from other hosts
            os.fsync(file.fileno())
    return sums


@pytest.mark.seconds(7000 if LONG else 900)
def test_killed_at_random_moments(cluster, capsys):
    begin = time.monotonic()
    operations, by_victims, kept = 0, {}, {}
    for seed in range(FIRST_SEED, FIRST_SEED + MOMENTS):
        moment = Moment(cluster, seed)
        moment.run()
        operations += moment.operations
        key = "+".join(moment.victims)
        by_victims[key] = by_victims.get(key, 0) + 1
        kept[moment.directory] = digest(os.path.join(cluster.ws1, moment.directory))
    for directory, sums in kept.items():  # what was found then is there still
        assert digest(os.path.join(cluster.ws2, directory)) == sums, directory
    cluster.fsck()
    with capsys.disabled():
        print(f"\ncrash: {MOMENTS} moments from seed {FIRST_SEED} in "
              f"{time.monotonic() - begin:.0f} s: "
              + ", ".join(f"{count} x {name}" for name, count in sorted(by_victims.items()))
              + f"; {operations} operations acknowledged, none lost; fsck clean")
