"""The vocabulary of the end-to-end tests: a cluster run by deploy/lab/lab, and questions to it."""
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LAB = os.path.join(TOP, "deploy", "lab", "lab")
BIN = os.environ.get("REEL_BIN", os.path.join(TOP, "build", "release", "bin"))
FAILING = os.path.join(os.path.dirname(BIN), "failing")  # the same, on LUNs that can fail
GUARD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guard.py")
COMMAND_SECONDS = 3600 if os.environ.get("REEL_LONG") else 600
TEST_SECONDS = 240
AFTER_GUARD_SECONDS = 20
_deadline = [math.inf]  # of the test that runs
NEEDED_MIB = 6 * 1024


def run(*command, **options):
    """A command that must succeed; its output."""
    options = {"stdin": subprocess.DEVNULL, "timeout": COMMAND_SECONDS, **options}
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **options)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout[-4000:]}"
    return done.stdout


def until(check):
    """Asks until it is so, ever less often. Fails soon after the guard has ended the daemons: what
    is asked for will not come then."""
    pause = 0.05
    while not check():
        assert time.monotonic() < _deadline[0], "what the test waits for has not come in its time"
        threading.Event().wait(pause)
        pause = min(pause * 1.5, 0.5)


def _takes_direct_io(directory):
    try:
        with tempfile.NamedTemporaryFile(dir=directory) as probe:
            os.close(os.open(probe.name, os.O_RDWR | os.O_DIRECT))
        return True
    except OSError:
        return False


def scratch_directory():
    """A new directory, on tmpfs where that is big enough (and takes O_DIRECT: Linux 6.6)."""
    shm = "/dev/shm"
    if os.path.isdir(shm) and shutil.disk_usage(shm).free >= NEEDED_MIB << 20 \
            and _takes_direct_io(shm):
        return tempfile.mkdtemp(prefix="reelfs-e2e-", dir=shm)
    return tempfile.mkdtemp(prefix="reelfs-e2e-", dir=os.environ.get("TMPDIR", "/var/tmp"))


# A host full of tests may let an MDC wait for longer than the default term. REEL_NAMES=early: all
# tests that do not choose themselves have controllers that answer changes of names early.
ONE_MDC = {"mdcs": 1, "seat_ms": 20_000, "names": os.environ.get("REEL_NAMES", "delegated")}


class Cluster:
    """One MDC (unless told otherwise) and its clients, mounted at `mounts`; `scratch` is a local
    directory beside it.

    As a test module asks for in its CLUSTER: the lab's configuration (deploy/lab/spec.py).
    """

    def __init__(self, bin=BIN, **configuration):
        self.bin = bin
        configuration = {**ONE_MDC, **configuration}
        self.mdcs = [f"mdc{n}" for n in range(1, 1 + configuration["mdcs"])]
        self._where = {}  # as they stay
        self.base = scratch_directory()
        os.chmod(self.base, 0o755)  # for the tests that are other users
        self.dir = os.path.join(self.base, "cluster")
        self.scratch = os.path.join(self.base, "scratch")
        os.mkdir(self.scratch)
        self.clients = [f"ws{n}" for n in range(1, 1 + configuration.get("clients", 2))]
        self.mounts = [os.path.join(self.dir, client) for client in self.clients]
        self.ws1, self.ws2 = self.mounts[:2]
        # A network of the cluster's own is reached from inside it only.
        self.inside = [LAB, "exec", "--dir", self.dir, "--"] \
            if configuration.get("backend") == "netns" else []
        wishes = os.path.join(self.base, "lab.json")
        with open(wishes, "w") as file:
            json.dump(configuration, file)
        # Takes the cluster down when this process ends, however it ends.
        self._guard = subprocess.Popen(
            [sys.executable, "-B", GUARD, LAB, self.base, *self.clients, *self.mdcs],
            stdin=subprocess.PIPE, text=True, start_new_session=True)
        self.up("--config", wishes)

    def up(self, *arguments):
        """Starts what does not run."""
        self.lab("up", "--bin", self.bin, *arguments)

    def lab_command(self, verb):
        # (By this very interpreter: what finds another one may cost more than what it runs.)
        return [sys.executable, "-B", LAB, verb, "--dir", self.dir]

    def lab(self, verb, *arguments):
        return run(*self.lab_command(verb), *arguments)

    def lab_fails(self, verb, *arguments):
        done = subprocess.run([*self.lab_command(verb), *arguments], capture_output=True, text=True,
                              timeout=COMMAND_SECONDS, stdin=subprocess.DEVNULL)
        assert done.returncode != 0
        return done.stderr

    def kill(self, host, signal="KILL"):
        self.lab("kill", host, signal)

    def start(self, host):
        self.lab("start", host)

    def restart(self):
        self.lab("restart")

    def hosts(self):
        done = subprocess.run([*self.lab_command("status"), "--json"], text=True,
                              stdout=subprocess.PIPE, timeout=60, check=False)
        return {host["host"]: host for host in json.loads(done.stdout)["hosts"]}

    def log(self, host):
        return self.lab("logs", host)

    def own_config(self):
        """What a program reads in place of this machine's configuration, in /etc/reelfs."""
        config = os.path.join(self.scratch, "empty.toml")
        open(config, "a").close()
        return config

    def tool(self, name, *arguments, **options):
        if name == "reeladm" and arguments[0] != "pki":
            arguments = ("--config", self.own_config(), *arguments)
        return subprocess.run([*self.inside, os.path.join(self.bin, name), *map(str, arguments)],
                              text=True, capture_output=True, timeout=COMMAND_SECONDS,
                              stdin=subprocess.DEVNULL, **options)

    def luns(self):
        return os.path.join(self.dir, "luns", "*.img")

    def lun_digest(self, *names):
        """Of what these LUNs hold."""
        digest = hashlib.sha256()
        for name in names:
            with open(os.path.join(self.dir, "luns", name + ".img"), "rb") as image:
                for chunk in iter(lambda: image.read(16 << 20), b""):
                    digest.update(chunk)
        return digest.hexdigest()

    def reeladm(self, *command):
        """The JSON of `reeladm --json COMMAND`, of a cluster whose MDCs run."""
        done = self.ask(",".join(self.where(mdc) for mdc in self.mdcs), *command)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def ask(self, mdcs, *command):
        """`reeladm --json COMMAND` of the controllers at these addresses."""
        tls = [part for key, path in self.tls_files("admin").items()
               for part in ("--" + key.replace("_", "-"), path)]
        return self.tool("reeladm", "--mdc", mdcs, "--volume", "reel", "--json", *tls, *command)

    def where(self, host):
        """The address of an MDC, or of another host that has one."""
        if host not in self._where:
            self._where = {name: row["where"] for name, row in self.hosts().items()}
        return self._where[host]

    def role(self, mdc):
        """As it says itself: active, standby, …; None where it does not answer."""
        done = self.ask(self.where(mdc), "--timeout-ms", "2000", "volumes")
        return json.loads(done.stdout)["volumes"][0]["role"] if done.returncode == 0 else None

    def alarms(self):
        """Those of `reeladm show`. That a beat took long says what else this machine had to do."""
        return [alarm for alarm in self.reeladm("show")["alarms"]
                if "a beat on the seat LUN took" not in alarm]

    def active(self):
        """The name of the MDC that serves the volume."""
        active = [mdc for mdc in self.mdcs if self.role(mdc) == "active"]
        assert len(active) == 1, self.hosts()
        return active[0]

    def session_of(self, host):
        """The mount's session, as the controller knows it; None while it serves none."""
        mount = self.mounts[self.clients.index(host)]
        found = [session for session in self.reeladm("who")["sessions"]
                 if session["mount_point"] == mount and session["state"] == "serving"]
        return found[0]["session"] if found else None

    def counters(self):
        """What the controller has counted since its start."""
        return {counter["name"]: int(counter["value"])
                for counter in self.reeladm("stat")["counters"]}

    def tls_files(self, name, pki=None):
        """The keys of a holder's certificate files; empty when the cluster has no TLS."""
        pki = pki or os.path.join(self.dir, "pki")
        if not os.path.isdir(pki):
            return {}
        files = {"tls_ca": "ca.crt", "tls_cert": f"{name}.crt", "tls_key": f"{name}.key"}
        return {key: os.path.join(pki, file) for key, file in files.items()}

    def fsck(self):
        """Stops everything cleanly, checks the volume on the bare LUNs, starts again."""
        done = subprocess.run(self.lab_command("fsck"), text=True, capture_output=True,
                              timeout=COMMAND_SECONDS, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, f"fsck found something:\n{done.stdout}{done.stderr}"
        return json.loads(done.stdout)

    def guard_test(self, seconds=TEST_SECONDS):
        """From now on the daemons are killed when disarm() does not come in time, so that a test
        that hangs in a mount gets an error."""
        self._tell_guard(f"{seconds}")
        _deadline[0] = time.monotonic() + seconds + AFTER_GUARD_SECONDS

    def disarm(self):
        self._tell_guard("off")
        _deadline[0] = math.inf

    def _tell_guard(self, line):
        self._guard.stdin.write(line + "\n")
        self._guard.stdin.flush()

    def down(self):
        self._guard.stdin.close()
        assert self._guard.wait(timeout=COMMAND_SECONDS) == 0, "lab down failed"
        assert not os.path.exists(self.dir), os.listdir(self.dir)
