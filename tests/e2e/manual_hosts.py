"""Whoever follows the manual: the hosts of a bare lab, and a machine besides, by the words that the
manual has for them, and with what stands there in capitals."""
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time

from cluster import LAB, TOP
from machines import SECONDS, Machines
import manual

sys.path.insert(0, os.path.join(TOP, "tests"))

from overlay_host import OverlayHost  # noqa: E402
from vm.hosts import MOUNT_UNIT  # noqa: E402
from vm.wires import address  # noqa: E402

ADMIN = "your machine"
CONTROLLERS, WORKSTATIONS = ["mdc1", "mdc2"], ["ws1", "ws2"]
HOSTS = CONTROLLERS + WORKSTATIONS
PACKAGES = "/root/packages"
SET = "/root/reelfs-set"
# The administrator's answer to apt.
YES = "echo 'APT::Get::Assume-Yes \"true\";' >/etc/apt/apt.conf.d/99-answer\n"
# An emulated controller waits for its processor (spec.py), and its memory is small.
TERMS = r"sed -i 's/^\[\[volume\]\]/seat_ms = 20000\ncache_mib = 64\n\n&/' /etc/reelfs/mdc.toml"
SERVE = "systemctl enable --now reel-mdcd"
SSH = """Host {name}
  HostName {address}
  IdentityFile /root/.ssh/key
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
"""


class ManualHosts(Machines):
    """`directory`: of the lab; beside it is what the administrator's machine has changed."""

    def __init__(self, directory):
        super().__init__(directory, "--bare", "--luns", "meta=1x1G,data=2x512M,new=1x768M")
        self.words = {}  # what stands for words in capitals
        self.took = {}
        self.admin_dir = directory + ".admin"
        self._begin_admin()

    def _begin_admin(self):
        """Your machine: this one, with a root of its own, in the lab's network."""
        os.makedirs(self.admin_dir, exist_ok=True)
        if not os.path.ismount(self.admin_dir):
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1G", "admin", self.admin_dir],
                           check=True)
        self.admin = OverlayHost("/", self.admin_dir,
                                 inside=[LAB, "exec", "--dir", self.dir, "--"])
        with open(os.path.join(self.dir, "lab.json")) as file:
            numbers = json.load(file)["network"]["numbers"]
        self.admin.shell(f"mkdir -p -m 700 /root/.ssh {PACKAGES}")
        with open(f"{self.admin.upper}/root/.ssh/config", "w") as file:
            file.writelines(SSH.format(name=name, address=address("admin", number))
                            for name, number in numbers.items())
        self.give(os.path.join(self.dir, "key"), "/root/.ssh/")
        self.admin.shell(YES)

    def give(self, path, place):
        """A file of this machine, to the administrator's."""
        subprocess.run(["cp", "-p", path, self.admin.upper + place], check=True)

    def give_packages(self, directory):
        for name in os.listdir(directory):
            self.give(os.path.join(directory, name), PACKAGES)

    def name_luns(self):
        """META1, DATA1, …: multipath shows LIO's own names of them."""
        found = re.findall(r"(?m)^(\w+) dm-\d+ LIO-ORG,\s*(\w+)", self.on("mdc1", "multipath -ll"))
        self.words |= {{"meta1": "META1", "data1": "DATA1", "data2": "DATA2", "new1": "NEW1"}[name]:
                       f"/dev/mapper/{wwid}" for wwid, name in found}

    def whose(self, where):
        """The hosts that the manual means."""
        if where in HOSTS + [ADMIN]:
            return [where]
        if where in ("each standby", "the active controller"):
            active = self.active()
            return [active] if where[0] == "t" else [n for n in CONTROLLERS if n != active]
        return {"each controller": CONTROLLERS, "each workstation": WORKSTATIONS,
                "each host": HOSTS}[where]

    def act(self, host, script):
        """One block of the manual, as it stands there; what it says."""
        for word, meaning in self.words.items():
            script = re.sub(rf"(?<![A-Z]){word}(?![A-Z0-9])", meaning, script)
        if host == ADMIN:
            return self.admin.shell(f"cd {PACKAGES}\n{script}")
        script = script.replace(SERVE, f"{TERMS}\n{SERVE}")
        return self.on(host, f"set -e\n{script}", seconds=2 * SECONDS)

    def follow(self, title, first=0, end=None):
        """A section, or some of its steps: [(step, host, what it said)]. Hosts that the manual
        names together are worked on at once."""
        said, began = [], time.monotonic()
        for step in manual.steps(title)[first:end]:
            hosts = self.whose(step.where)
            with concurrent.futures.ThreadPoolExecutor(len(hosts)) as pool:
                answers = list(pool.map(lambda host: self.act(host, step.script), hosts))
            said += [(step, host, answer) for host, answer in zip(hosts, answers)]
        self.took[title] = self.took.get(title, 0) + time.monotonic() - began
        return said

    def active(self):
        """As the hosts say it, which the lab of bare machines does not know."""
        return next((host for host in CONTROLLERS if self.role(host) == "active"), None)

    def role(self, host):
        said = self.on(host, f"reeladm --json --mdc {host} --timeout-ms 30000 volumes", code=None)
        return json.loads(said)["volumes"][0]["role"] if said else "does not answer"

    def await_mounts(self):
        for host in WORKSTATIONS:
            self.await_true(
                lambda: self.on(host, f"systemctl is-active {MOUNT_UNIT}", code=None) == "active\n",
                f"{host} has mounted the volume")

    def await_standby(self):
        self.await_true(lambda: sorted(map(self.role, CONTROLLERS)) == ["active", "standby"],
                        "one active controller and a standby")

    def down(self):
        super().down()
        subprocess.run(["umount", self.admin_dir], check=True)
        os.rmdir(self.admin_dir)
