"""Random kills, pauses, cuts and slow LUNs over controllers and clients, under a load whose every
operation is on record: nothing acknowledged is lost, nothing is done twice, fsck is clean.

A round is one seed: workers (crash_load.py) on all mounts and a stream of large writes on one
(chaos_stream.py), faults one after the other, each put right after a while, and then the look at
what is there. A worker must end well; only one whose client was killed, or was evicted for having
been away for longer than its lease, may have seen an error, and lose what was not synced.
REEL_CHAOS_SEED=N begins with that seed, and with REEL_CHAOS_ROUNDS=1 it is the only one; where the
first is odd, controllers answer changes of names early.
"""
import os
import random
import subprocess
import sys
import time

import pytest

import chaos_stream
from crash_model import Wrong, read_record, verify

LONG = bool(os.environ.get("REEL_LONG"))
SECONDS = 7200 if LONG else 60
ROUNDS = int(os.environ.get("REEL_CHAOS_ROUNDS", "0")) or 1 << 20
SEED = int(os.environ.get("REEL_CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 30)
# An eviction waits for a lease, so that is short; and what a client alone may suffer, shorter.
LEASE_MS = 5000
CLUSTER = {"mdcs": 2, "clients": 3, "seat_ms": 1500, "session_lease_ms": LEASE_MS,
           "backend": "netns", "lun_backend": "iscsi", "lun_delays": True,
           "luns": "meta=1x1G,data=2x1G", "names": ("durable", "delegated", "early")[SEED % 3]}
HERE = os.path.dirname(os.path.abspath(__file__))
END_SECONDS = 90
# How often which, and for how long (in seconds) it lasts.
FAULTS = {"kill mdc": (4, 0.1, 3.0), "pause mdc": (3, 0.2, 4.0), "cut mdc lan": (2, 0.3, 4.0),
          "cut mdc san": (2, 0.3, 4.0), "kill both": (1, 0.0, 0.5), "fail": (1, 0.0, 0.5),
          "slow": (2, 0.5, 2.0), "pause ws": (2, 0.2, 2.0), "cut ws lan": (2, 0.2, 2.0),
          "cut ws san": (2, 0.2, 2.0), "kill ws": (1, 0.1, 1.0)}


class Program:
    """One that runs on a host's mount until it is told to stop."""

    def __init__(self, cluster, host, directory, seed, script):
        self.host, self.directory = host, directory
        self.record = os.path.join(cluster.scratch, f"chaos.{seed}.{host}.{script}")
        self.process = subprocess.Popen(
            [sys.executable, "-B", os.path.join(HERE, script),
             os.path.join(cluster.dir, host, directory), self.record, *self.arguments(seed)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n", f"{script} does not start"

    def stop(self):
        """Its exit status, after its operation in progress."""
        self.process.stdin.close()
        return self.process.wait(timeout=END_SECONDS)

    def end(self):
        self.process.kill()
        self.process.wait()


class Worker(Program):
    def __init__(self, cluster, host, directory, seed):
        self.prefix = f"{host}."
        super().__init__(cluster, host, directory, seed, "crash_load.py")

    def arguments(self, seed):
        return self.prefix, str(seed)

    def look(self, where, status, lost):
        """How many operations were acknowledged."""
        model, unfinished, count, error = read_record(self.record)
        if not lost:
            assert status == 0 and error is None, f"ended with {status}: {error}"
            assert unfinished is None, unfinished
        verify(where, self.prefix, model, unfinished, lost, alone=False)
        return count


class Stream(Program):
    NAME = "stream"

    def __init__(self, cluster, host, directory, seed):
        super().__init__(cluster, host, directory, seed, "chaos_stream.py")

    def arguments(self, seed):
        self.seed = seed
        return self.NAME, str(seed)

    def look(self, where, status, lost):
        *_, error = chaos_stream.read_record(self.record)
        assert lost or (status == 0 and error is None), f"ended with {status}: {error}"
        chaos_stream.verify(where, self.NAME, self.seed, self.record, lost)
        for left in os.listdir(where):
            if left.startswith(self.NAME):
                os.unlink(os.path.join(where, left))
        return 0


class Round:
    def __init__(self, cluster, seed):
        self.cluster, self.seed, self.random = cluster, seed, random.Random(seed)
        self.story, self.killed, self.hurt = [], set(), set()

    def run(self):
        """How many operations were acknowledged."""
        cluster, directory = self.cluster, f"chaos{self.seed}"
        os.mkdir(os.path.join(cluster.ws1, directory))
        logged = {host: len(cluster.log(host)) for host in cluster.clients}
        workers = [Worker(cluster, host, directory, self.seed) for host in cluster.clients]
        streaming = cluster.clients[self.seed % len(cluster.clients)]
        workers.append(Stream(cluster, streaming, directory, self.seed))
        try:
            for _ in range(self.random.randrange(2, 5)):
                self.strike()
            cluster.lab("heal")
            statuses = [worker.stop() for worker in workers]
        finally:
            for worker in workers:
                worker.end()
        done = 0
        for worker, status in zip(workers, statuses):
            log = cluster.log(worker.host)[logged[worker.host]:]
            evicted = "the session is over" in log
            assert not evicted or worker.host in self.hurt, f"{worker.host} was evicted"
            lost = worker.host in self.killed or evicted
            done += self.look(worker, status, lost)
        cluster.fsck()
        return done

    def strike(self):
        """One fault, from its beginning to its end."""
        cluster, kinds = self.cluster, list(FAULTS)
        kind = self.random.choices(kinds, [FAULTS[kind][0] for kind in kinds])[0]
        lasts = self.random.uniform(*FAULTS[kind][1:])
        of_mdc = "mdc" in kind
        host = self.random.choice(cluster.mdcs if of_mdc else cluster.clients)
        what, *rest = kind.split()
        self.story.append(f"{kind} {lasts:.1f} s")
        if kind in ("kill both", "fail") or not cluster.hosts()[host]["pid"]:
            cluster.lab("heal")  # they take hosts that run
        if kind == "kill both":
            for mdc in cluster.mdcs:
                self.hit("kill", mdc)
        elif kind == "fail":
            cluster.lab("fail")
        elif kind == "slow":
            cluster.lab("slow", self.random.choice(("meta1", "data1", "data2")),
                        str(self.random.randrange(20, 200)))
        else:
            self.story[-1] += f" ({host})"
            self.hurt.add(host)
            if what in ("kill", "pause"):
                self.hit(what, host)
                if what == "kill" and not of_mdc:
                    self.killed.add(host)
            else:
                cluster.lab("partition", host, rest[1])
        time.sleep(lasts)  # tidy: sleep: as long as the fault lasts
        # Some faults are still there when the next one strikes.
        if self.random.random() < 0.7 or not of_mdc:
            self.story[-1] += ", healed"
            cluster.lab("heal")

    def hit(self, what, host):
        """A controller that is cut off may have ended by itself, just before."""
        try:
            self.cluster.lab(what, host)
        except AssertionError as error:
            if "does not run" not in str(error) or host not in self.cluster.mdcs:
                raise

    def look(self, worker, status, lost):
        mount = os.path.join(self.cluster.dir, self.random.choice(self.cluster.clients))
        try:
            return worker.look(os.path.join(mount, worker.directory), status, lost)
        except (Wrong, AssertionError) as wrong:
            raise AssertionError(f"{os.path.basename(worker.record)}, "
                                 f"{'lost' if lost else 'unhurt'}: {wrong}") from None


@pytest.mark.seconds(SECONDS + 600)
def test_chaos(cluster, capsys):
    began = time.monotonic()
    rounds, operations, kinds = 0, 0, {}
    while time.monotonic() - began < SECONDS and rounds < ROUNDS:
        a_round = Round(cluster, SEED + rounds)
        try:
            operations += a_round.run()
        except BaseException as error:
            raise AssertionError(f"REEL_CHAOS_SEED={a_round.seed}: {'; '.join(a_round.story)}: "
                                 f"{error}") from error
        rounds += 1
        for told in a_round.story:
            kind = " ".join(word for word in told.split()[:3] if word.isalpha() and word != "s")
            kinds[kind] = kinds.get(kind, 0) + 1
    with capsys.disabled():
        print(f"\nchaos: {rounds} rounds from seed {SEED} in {time.monotonic() - began:.0f} s: "
              + ", ".join(f"{count} x {kind}" for kind, count in sorted(kinds.items()))
              + f"; {operations} operations acknowledged, none lost; fsck clean after each")
