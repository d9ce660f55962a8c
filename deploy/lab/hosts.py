"""The hosts of a cluster: an Mdc or a Client, each one daemon with a directory of its own.

Host holds all that has to do with *where* a daemon runs: a process of this machine, in its network
(network.py); the subclasses know what the daemon is told, and how it stops.
"""
import contextlib
import json
import os
import signal
import subprocess
import sys

from marks import marks_of_log
from network import HUB
from process import LabError, Process, STOP_SECONDS

UMOUNT_SECONDS = 20
HERE = os.path.dirname(os.path.abspath(__file__))


def parse_signal(text):
    name = text.upper()
    name = name if name.startswith("SIG") else "SIG" + name
    try:
        return signal.Signals(int(text)) if text.isdigit() else signal.Signals[name]
    except (KeyError, ValueError):
        raise LabError(f"'{text}' is not a signal (examples: KILL, TERM, STOP, CONT, 9)")


def mounted(directory):
    """Whether something is mounted at `directory`; asks the kernel's table, not the mount, which
    may hang or be dead."""
    escaped = directory.replace("\\", r"\134").replace(" ", r"\040").replace("\t", r"\011")
    with open("/proc/self/mountinfo") as table:
        return any(line.split()[4] == escaped for line in table)


class Host:
    def __init__(self, name, cluster):
        self.name, self.cluster = name, cluster
        self.dir = os.path.join(cluster.dir, "hosts", name)
        self.log_path = os.path.join(self.dir, "log")
        self.environment = {}
        self.web = cluster.webs.get(name)  # where it serves metrics, if anywhere but by default
        self.process = Process(name, os.path.join(self.dir, "pid"), self.log_path)

    def running(self):
        return self.process.pid() is not None

    def prepare(self):
        """What has to be there before it starts."""

    def start(self):
        if self.running():
            return
        os.makedirs(self.dir, exist_ok=True)
        self.prepare()
        self.process.start(self.cluster.network.inside(self.name) + self.command(),
                           self.environment)

    def own_config(self, name):
        """Without one, a program reads the machine's configuration, in /etc/reelfs."""
        path = os.path.join(self.dir, name)
        with open(path, "w") as config:
            config.write("# All that is to be said stands on the command line.\n")
        return path

    def kill(self, signal_text):
        """As a person or a fault would: the signal, and for those that end it, wait for the end."""
        number = parse_signal(signal_text)
        if not self.process.signal(number):
            raise LabError(f"{self.name}: does not run")
        if number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGABRT):
            if not self.process.wait_gone():
                raise LabError(f"{self.name}: still runs {STOP_SECONDS} s after {number.name}")

    def terminate(self):
        """A clean stop by SIGTERM; after a bounded wait, SIGKILL. True when it was clean."""
        self.process.signal(signal.SIGCONT)  # a stopped process would not see SIGTERM
        self.process.signal(signal.SIGTERM)
        clean = self.process.wait_gone()
        self.process.kill()
        return clean

    def log_lines(self, count):
        """The last ones, or all."""
        try:
            with open(self.log_path, errors="replace") as log:
                text = log.readlines()
        except FileNotFoundError:
            raise LabError(f"{self.name}: has no log yet ({self.log_path})")
        return text if count is None else text[-count:]

    def marks(self, since):
        """What its log has said since then: (when, level, words)."""
        return [mark for mark in marks_of_log(self.log_lines(None)) if mark[0] >= since]

    def life(self):
        """Another one after each start of its daemon."""
        return self.process.pid()

    def status(self):
        pid = self.process.pid()
        web = {"web": self.web} if self.web else {}
        return {"host": self.name, "kind": self.kind, "state": "running" if pid else "stopped",
                "pid": pid, "where": self.where(), "log": self.log_path,
                "cut": self.cluster.network.cuts(self.name), **web}


class Mdc(Host):
    kind = "mdc"
    answer_ms = 2000  # for which reeladm waits

    def __init__(self, name, cluster, address):
        super().__init__(name, cluster)
        self.address = address

    def where(self):
        return self.address

    def reeladm(self, *words):
        """What `reeladm --json WORDS` has to say to this very MDC, or None where it fails."""
        try:
            done = self.cluster.reeladm([self], self.answer_ms, *words)
            return json.loads(done.stdout) if done.returncode == 0 else None
        except ValueError:
            return None

    def role(self):
        """active, standby, or why it is neither."""
        if not self.running():
            return "stopped"
        answer = self.reeladm("volumes")
        return answer["volumes"][0]["role"] if answer else "does not answer"

    def status(self):
        role = {"role": self.role()} if len(self.cluster.mdcs) > 1 else {}
        return {**super().status(), **role}

    def prepare(self):
        tls = self.cluster.pki.files(self.name)
        with open(os.path.join(self.dir, "mdc.toml"), "w") as config:
            config.write("".join(f'{key} = "{path}"\n' for key, path in tls.items()) +
                         f'listen = "{self.address}"\n'
                         f'luns = {json.dumps(self.cluster.luns.patterns())}\n'
                         + (f'web_listen = "{self.web}"\n' if self.web else "") +
                         f"session_lease_ms = {self.cluster.spec.session_lease_ms}\n"
                         f"seat_ms = {self.cluster.spec.seat_ms}\n"
                         f'names = "{self.cluster.spec.names}"\n\n'
                         f'[[volume]]\nname = "{self.cluster.spec.volume}"\n')
            if self.cluster.spec.small_file_bytes:  # an earlier release knows no such key
                config.write(f"small_file_bytes = {self.cluster.spec.small_file_bytes}\n")
            with contextlib.suppress(FileNotFoundError):
                with open(os.path.join(self.cluster.dir, "exports.toml")) as exports:
                    config.write(exports.read())

    def command(self):
        return [self.cluster.spec.program("reel-mdcd"), "--config",
                os.path.join(self.dir, "mdc.toml")]

    def stop(self):
        return self.terminate()


class Client(Host):
    kind = "client"

    def __init__(self, name, cluster):
        super().__init__(name, cluster)
        self.mount_point = os.path.join(cluster.dir, name)
        self.known_as = f"at {self.mount_point}"  # in what MDCs say of it

    def give_programs(self, paths):
        """Python's, that are to run beside its mount, with what they import."""

    def python(self, program, *words):
        """What runs one of them; it ends when its standard input is told to."""
        return [sys.executable, "-B", os.path.join(HERE, program), *words]

    def where(self):
        return self.mount_point + ("" if mounted(self.mount_point) else " (not mounted)")

    def prepare(self):
        if mounted(self.mount_point):  # left behind by a daemon that was killed
            self._unmount(lazy=True)
        os.makedirs(self.mount_point, exist_ok=True)

    def start(self):
        # A daemon that was unmounted behind the lab's back may still be saying goodbye.
        mark = os.path.join(self.dir, "mounted")
        if self.running() and os.path.exists(mark) and not mounted(self.mount_point):
            if not self.process.wait_gone():
                raise LabError(f"{self.name}: runs, but nothing is mounted at "
                               f"{self.mount_point}; see its log: {self.log_path}")
        super().start()
        if mounted(self.mount_point):
            open(mark, "w").close()

    def command(self):
        cluster = self.cluster
        options = f"config={self.own_config('client.toml')},mdc={','.join(cluster.mdc_addresses())}"
        for pattern in cluster.luns.patterns():
            options += f",luns={pattern.replace(',', ';')}"  # a comma ends an option
        for key, path in cluster.pki.files(self.name).items():
            options += f",{key}={path}"
        if self.web:
            options += f",web_listen={self.web}"
        if wishes := cluster.spec.mount_options_of(self.name):
            options += "," + wishes
        return [cluster.spec.program("mount.reelfs"), cluster.spec.volume, self.mount_point,
                "-o", options + ",retry=0", "-f"]

    def stop(self):
        """Unmounts as `umount` does; a mount that is busy, dead or stuck goes lazily."""
        self.process.signal(signal.SIGCONT)
        clean = True
        if self.running() and mounted(self.mount_point):
            clean = self._unmount() and self.process.wait_gone()
        if self.running():
            clean = self.terminate() and clean
        while mounted(self.mount_point):
            if not self._unmount(lazy=True):
                raise LabError(f"{self.name}: cannot unmount {self.mount_point}; "
                               f"see who uses it: fuser -vm {self.mount_point}")
        return clean

    def _unmount(self, lazy=False):
        if not mounted(self.mount_point):
            return True
        if os.getuid() == 0:
            command = ["umount"] + ["-l"] * lazy + [self.mount_point]
        else:
            command = ["fusermount3", "-u"] + ["-z"] * lazy + [self.mount_point]
        try:
            return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True,
                                  timeout=UMOUNT_SECONDS).returncode == 0
        except subprocess.TimeoutExpired:
            return False
