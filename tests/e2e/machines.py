"""The words of the stories about machines: a cluster of them, and what is done on its hosts."""
import json
import os
import shlex
import subprocess
import threading
import time

from cluster import BIN, LAB
from machine_load import PIECE

MOUNT = "/mnt/reel"
SECONDS = 400
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "machine_load.py")) as _file:
    LOAD = _file.read()


class Load:
    """machine_load.py on one host; `done` are the files that it has called durable."""
    running = []

    def __init__(self, machines, host, name):
        self.running.append(self)
        self.machines, self.host, self.name = machines, host, name.replace(" ", "-")
        self.stop_file, self.lines = f"/run/stop-{self.name}", []
        machines.on(host, f"cat >/run/load.py <<'END'\n{LOAD}\nEND\nrm -f {self.stop_file}")
        self.process = machines.begin(
            host, f"python3 -u /run/load.py {MOUNT}/{self.name} {self.stop_file}")
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.await_more()

    def _read(self):
        for line in self.process.stdout:
            if line.startswith("{") and line.endswith("}\n"):
                self.lines.append(json.loads(line))

    def await_more(self, count=5):
        goal = len(self.lines) + count
        self.machines.await_true(lambda: len(self.lines) >= goal,
                                 f"{self.host}: {count} more files of {self.name}")

    @classmethod
    def abandon_all(cls):
        """Those of a test that has failed."""
        left = [load for load in cls.running if load.process.poll() is None]
        cls.running.clear()
        for load in left:
            load.process.kill()
            load.process.wait()
            if load.machines.hosts()[load.host]["state"] == "running":
                load.machines.on(load.host, f"touch {load.stop_file}", code=None)

    def end(self):
        """Told to stop, and it did, without an error."""
        errors = self.finish()
        assert not errors, f"{self.name}: {errors}"

    def finish(self):
        """Told to stop, and it did; the error that it met, if it did."""
        self.machines.on(self.host, f"touch {self.stop_file}")
        self.process.wait(timeout=SECONDS)
        self.reader.join()
        return [line["error"] for line in self.lines if line["error"]]

    def seconds(self):
        """How long each file took."""
        return [line["seconds"] for line in self.lines]

    def longest(self):
        return max(self.seconds())

    def lost(self):
        """Its host is off, or was."""
        self.process.kill()
        self.process.wait()
        self.reader.join(timeout=SECONDS)

    def check(self, host):
        """All that was durable is there, as another host sees it."""
        numbers = " ".join(str(line["n"]) for line in self.lines if not line["error"])
        said = self.machines.on(host, f"""python3 - {numbers} <<'END'
import sys
sys.path.insert(0, "/run")
sys.argv, numbers = sys.argv[:1], sys.argv[1:]
def text_of(number):
    return f"{{number:08}}\\n".encode() * ({PIECE} // 9)
for number in numbers:
    with open("{MOUNT}/{self.name}/" + number, "rb") as file:
        if file.read() != text_of(int(number)):
            print("damaged:", number)
END""")
        assert said == "", said


class Machines:
    def __init__(self, directory, *options):
        self.dir = directory
        self.lab("up", "--backend", "vm", "--bin", BIN, *options, seconds=1800)

    def lab(self, verb, *words, seconds=600):
        done = subprocess.run([LAB, verb, "--dir", self.dir, *words], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=seconds)
        assert done.returncode == 0, f"lab {verb} {words}: {done.stdout}{done.stderr}"
        return done.stdout

    def on(self, host, script, code=0, seconds=SECONDS):
        """What a shell script says there."""
        done = subprocess.run([LAB, "exec", "--dir", self.dir, "--host", host, "--", script],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=seconds)
        assert code is None or done.returncode == code, (
            f"{host}: {script}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def begin(self, host, script):
        """The same, in the background."""
        return subprocess.Popen([LAB, "exec", "--dir", self.dir, "--host", host, "--", script],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def hosts(self):
        done = subprocess.run([LAB, "status", "--dir", self.dir, "--json"], capture_output=True,
                              text=True, timeout=SECONDS)
        return {host["host"]: host for host in json.loads(done.stdout)["hosts"]}

    def active(self):
        found = [name for name, host in self.hosts().items() if host.get("role") == "active"]
        return found[0] if len(found) == 1 else None

    def await_true(self, condition, what, seconds=SECONDS):
        until = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < until, f"{what}: not within {seconds} s"
            threading.Event().wait(0.5)  # hosts are asked, and tell nobody by themselves
        return found

    def write(self, host, name, text):
        """Durable when it returns."""
        self.on(host, f"printf %s {shlex.quote(text)} >{MOUNT}/{name} && sync {MOUNT}/{name}")

    def read(self, host, name):
        return self.on(host, f"cat {MOUNT}/{name}")

    def await_standby(self):
        """One controller is active, and the other one stands by."""
        self.await_true(lambda: sorted(host.get("role", "-") for host in self.hosts().values()
                                       if host["kind"] == "mdc") == ["active", "standby"],
                        "one active controller and a standby")

    def now(self, host):
        """By its own clock, for its journal."""
        return self.on(host, "date +@%s").strip()

    def journal(self, host, words, since):
        """Lines of its journal since then that have these words (grep -E)."""
        return self.on(host, f"journalctl --since {since} --output cat --no-pager | "
                             f'grep -E "{words}" || true')

    def send(self, host, directory, paths):
        """Copies files there."""
        words = [word for path in paths for word in ("-C", *os.path.split(path))]
        tar = subprocess.run(["tar", "-c", *words], capture_output=True, check=True)
        done = subprocess.run([LAB, "exec", "--dir", self.dir, "--host", host, "--",
                               f"mkdir -p {directory} && tar -x -C {directory}"],
                              input=tar.stdout, capture_output=True, timeout=SECONDS)
        assert done.returncode == 0, done.stderr

    def paths(self, host):
        """How many paths of its LUNs are at work, and how many are not."""
        said = self.on(host, "multipath -ll").split("\n")
        return (sum("active ready" in line for line in said),
                sum(" failed " in line or " faulty " in line for line in said))

    # What conftest.py asks of every cluster: the waits here are all bounded by themselves.
    guard_test = disarm = staticmethod(lambda *_: None)

    def down(self):
        self.lab("down")


def why_not():
    """Why the stories cannot be told here, or None."""
    if not os.environ.get("REEL_LONG"):
        return "machines take minutes: REEL_LONG=1"
    lab = os.path.dirname(LAB)
    done = subprocess.run(["/usr/bin/python3", "-B", "-c",
                           "import sys; sys.path.insert(0, sys.argv[1])\n"
                           "from vm.image import why_not; print(why_not() or '')", lab],
                          capture_output=True, text=True, check=True)
    return done.stdout.strip() or None
