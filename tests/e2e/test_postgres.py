"""PostgreSQL in the mount, under load, while something is killed: PostgreSQL itself, the
controller, the mounting client. No transaction that was acknowledged is lost, nothing is damaged.

A round is a run of pgbench, and the kill in the middle of it. Afterwards the database, recovered
where it has to be, holds what pgbench's log says; its indexes, tables and checksums are sound, and
the other mount sees the same bytes.
"""
import contextlib
import glob
import os
import select
import shutil
import signal
import subprocess
import sys
import time

import pytest

from cluster import run

# A short lease: whoever waits for a dead host waits that long.
CLUSTER = {"session_lease_ms": 3000, "luns": "meta=1x2G,data=2x4G"}
LONG = bool(os.environ.get("REEL_LONG"))
SCALE = 20 if LONG else 1
ROUNDS = 10 if LONG else 1
CLIENTS = 8 if LONG else 4
TRANSACTIONS = 5000 if LONG else 100  # before the kill, and where the load goes on, after it
ENDLESS_SECONDS = 86400
pytestmark = pytest.mark.seconds(1800 if LONG else 240)
AS_POSTGRES = ("setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups")


def program(name):
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"))
    assert found, f"PostgreSQL's {name} is not there: deploy/install-deps test"
    return found[-1]


def as_postgres(name, *arguments, **options):
    return run(*AS_POSTGRES, program(name), *arguments, **options)


class Server:
    """A PostgreSQL of its own: data in the mount, socket and logs in a local directory."""

    def __init__(self, cluster):
        self.place = os.path.join(cluster.scratch, "postgres")
        os.mkdir(self.place)
        shutil.chown(self.place, "postgres", "postgres")
        home = os.path.join(cluster.ws1, "postgres")
        os.mkdir(home)
        shutil.chown(home, "postgres", "postgres")
        self.data, self.other_data = (os.path.join(mount, "postgres", "data")
                                      for mount in (cluster.ws1, cluster.ws2))
        self.log = os.path.join(self.place, "log")
        self.process = None
        as_postgres("initdb", "--pgdata", self.data, "--data-checksums", "--locale=C",
                    "--encoding=UTF8", "--auth=trust", cwd=self.place)
        with open(os.path.join(self.data, "postgresql.conf"), "a") as file:
            file.write(f"listen_addresses = ''\nunix_socket_directories = '{self.place}'\n"
                       "shared_buffers = 16MB\nmax_wal_size = 64MB\ncheckpoint_timeout = 30s\n"
                       "wal_sync_method = fdatasync\n")

    def start(self):
        """Recovers, where the last end was not a clean one; returns when it takes queries."""
        with open(self.log, "a") as log:
            self.process = subprocess.Popen([*AS_POSTGRES, program("postgres"), "-D", self.data],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            cwd=self.place)
        while subprocess.run([program("pg_isready"), "--quiet", "--host", self.place],
                             check=False).returncode != 0:
            assert self.process.poll() is None, self.end_of_log()
            time.sleep(0.05)  # tidy: sleep (polling; the cluster's guard bounds it)

    def end_of_log(self):
        with open(self.log, errors="replace") as log:
            return "".join(log.readlines()[-30:])

    def stop(self):
        self.process.send_signal(signal.SIGINT)  # "fast": open connections are no reason to stay
        assert self.process.wait(timeout=120) == 0, self.end_of_log()
        self.process = None

    def kill(self):
        """All of its processes at once, by SIGKILL; they run in groups of their own."""
        if self.process is None:
            return
        mother = self.process.pid
        with contextlib.suppress(ProcessLookupError):
            os.kill(mother, signal.SIGSTOP)  # it makes no more of them
        ends = []
        with contextlib.suppress(FileNotFoundError):  # it has ended, the last of all
            with open(f"/proc/{mother}/task/{mother}/children") as children:
                ends = [os.pidfd_open(int(pid)) for pid in children.read().split()]
        for end in ends:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(end, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        self.process = None
        for end in ends:
            assert select.select([end], [], [], 60)[0], "a process of PostgreSQL survives SIGKILL"
            os.close(end)

    def ask(self, query, database="bench"):
        return run(program("psql"), "--host", self.place, "--username", "postgres", "--no-psqlrc",
                   "--tuples-only", "--no-align", "--dbname", database, "--command", query).strip()

    def committed(self):
        return int(self.ask("SELECT count(*) FROM pgbench_history"))

    # ---- load, and what must hold after it ----

    def fill(self):
        self.start()
        run(program("createdb"), "--host", self.place, "--username", "postgres", "bench")
        run(program("pgbench"), "--host", self.place, "--username", "postgres", "--initialize",
            "--quiet", "--scale", SCALE, "bench")
        self.ask("CREATE EXTENSION amcheck")

    def check(self, at_least, at_most):
        """The transactions that are there, by number and by sum; and, stopped, all of its bytes."""
        found = self.committed()
        assert at_least <= found <= at_most, \
            f"{found} transactions are there; {at_least} were acknowledged, {at_most} begun"
        sums = [self.ask(f"SELECT coalesce(sum({column}), 0) FROM {table}") for column, table in
                (("delta", "pgbench_history"), ("abalance", "pgbench_accounts"),
                 ("bbalance", "pgbench_branches"), ("tbalance", "pgbench_tellers"))]
        assert len(set(sums)) == 1, f"history, accounts, branches, tellers: {sums}"
        run(program("pg_amcheck"), "--host", self.place, "--username", "postgres", "--all",
            "--install-missing", "--heapallindexed", "--parent-check")
        self.stop()
        for data in (self.data, self.other_data) if LONG else (self.other_data,):
            as_postgres("pg_checksums", "--check", "--pgdata", data, cwd=self.place)
        self.start()


class Load:
    """A pgbench that runs until it is told to end; its log has a line for each transaction that it
    saw acknowledged."""

    number = 0

    def __init__(self, server):
        Load.number += 1
        self.server, self.before = server, server.committed()
        self.prefix = os.path.join(server.place, f"load{Load.number}")
        self.output = open(self.prefix + ".output", "w+")
        self.process = subprocess.Popen(
            [program("pgbench"), "--host", server.place, "--username", "postgres", "--no-vacuum",
             "--client", f"{CLIENTS}", "--jobs", "2", "--time", f"{ENDLESS_SECONDS}",
             "--log", "--log-prefix", self.prefix, "bench"],
            stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT)

    def go_on(self):
        """Until so many more transactions are there."""
        wanted = self.server.committed() + TRANSACTIONS
        while self.server.committed() < wanted:
            assert self.process.poll() is None, self.said() + self.server.end_of_log()

    def said(self):
        self.output.seek(0)
        return self.output.read()[-3000:]

    def end(self):
        self.process.send_signal(signal.SIGALRM)  # as if its time were over
        status, acknowledged = self.wait()
        assert status == 0, self.said()
        return acknowledged

    def wait(self):
        """Its exit status, and how many transactions its log has."""
        status = self.process.wait()
        lines = []
        for path in glob.glob(glob.escape(self.prefix) + ".[0-9]*"):
            with open(path) as file:
                lines += file.readlines()
        assert all(len(line.split()) == 6 for line in lines), "pgbench's log is cut off"
        return status, len(lines)


@pytest.fixture(scope="module")
def server(cluster):
    cluster.guard_test()
    made = Server(cluster)
    made.fill()
    yield made
    if made.process is not None and made.process.poll() is None:
        made.stop()  # which leaves no shared memory behind
    made.kill()


ROUND = pytest.mark.parametrize("number", range(ROUNDS))


def interrupted(server, kill):
    """A load that `kill` ends; the limits of what may be there afterwards."""
    load = Load(server)
    load.go_on()
    kill()
    status, acknowledged = load.wait()
    assert status != 0 and acknowledged >= TRANSACTIONS - CLIENTS
    return load.before + acknowledged, load.before + acknowledged + CLIENTS


@ROUND
def test_postgres_killed(server, number):
    limits = interrupted(server, server.kill)
    server.start()
    server.check(*limits)


@ROUND
def test_controller_killed(cluster, server, number):
    """The load goes on as if nothing had been; no call of PostgreSQL's fails."""
    load = Load(server)
    load.go_on()
    cluster.kill("mdc1")
    cluster.start("mdc1")
    load.go_on()
    expected = load.before + load.end()
    server.check(expected, expected)


@ROUND
def test_client_killed(cluster, server, number):
    """PostgreSQL panics over its dead mount, and recovers in the new one."""
    limits = interrupted(server, lambda: cluster.kill("ws1"))
    server.kill()
    cluster.start("ws1")
    server.start()
    server.check(*limits)


@ROUND
def test_controller_and_client_killed(cluster, server, number):
    def kill():
        cluster.kill("mdc1")
        cluster.kill("ws1")

    limits = interrupted(server, kill)
    server.kill()
    for host in ("mdc1", "ws1"):
        cluster.start(host)
    server.start()
    server.check(*limits)
