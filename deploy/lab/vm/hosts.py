"""The hosts of a cluster of machines: a SAN, controllers and workstations.

A host runs when its machine is switched on. What it is there for are units of its own systemd, as
on any host; the lab starts and stops machines, and asks the units.
"""
import os
import shlex
import signal

from hosts import Mdc, parse_signal
from marks import marks_of_journal
from process import LabError
from vm.guest import Guest
from vm.machine import Machine
from vm.wires import address

SHUTDOWN_SECONDS = 180
MOUNT_POINT = "/mnt/reel"
MOUNT_UNIT = "mnt-reel.mount"
SERVICE_SECONDS = 480
PROGRAMS = "/run/reelfs-lab"
_AWAIT_UNIT = """
for i in $(seq {tries}); do
  state=$(systemctl is-active {unit} || true)
  case $state in active) exit 0 ;; failed) break ;; esac
  sleep 0.5
done
echo "{unit} is $state" >&2; systemctl status --no-pager --lines 8 {unit} >&2; exit 1
"""


class MachineHost:
    """`unit`: what it is there for. `daemon`: what speaks in its journal (and may be in no unit: a
    mount by hand). `memory_mib`, `masked`: of its machine."""
    unit, daemon, memory_mib, masked = None, None, 512, ()

    def __init__(self, name, cluster, number, kernel, disks=()):
        self.name, self.cluster = name, cluster
        self.dir = os.path.join(cluster.dir, "hosts", name)
        self.machine = Machine(name, self.dir, number, self.memory_mib, kernel, self.masked, disks)
        self.process = self.machine.process
        self.log_path = os.path.join(self.dir, "log")
        self.lan, self.number = address("lan", number), number
        self.guest = Guest(name, address("admin", number), self.dir, cluster.key_path,
                           cluster.network.inside(name))

    def running(self):
        return self.machine.running()

    def switch_on(self):
        cluster = self.cluster
        if not self.running():
            self.guest.hang_up()  # what is left of connections to it leads nowhere
        self.machine.make(cluster.image)
        self.machine.switch_on(cluster.image, cluster.public_key(),
                               cluster.network.pulled(self.name), cluster.network.inside(self.name))

    def revert(self, name):
        self.machine.revert(name, self.cluster.image, self.cluster.public_key(),
                            self.cluster.network.inside(self.name))

    def start(self):
        self.switch_on()
        self.await_ready()

    def await_ready(self):
        """Its machine is up, and what it is there for is at work."""
        self.machine.await_up()
        if self.unit and self.cluster.state["formatted"] and not self.cluster.spec.bare:
            self.await_unit()

    def await_unit(self):
        self.guest.shell(_AWAIT_UNIT.format(unit=self.unit, tries=2 * SERVICE_SECONDS),
                         SERVICE_SECONDS + 60)

    def kill(self, signal_text):
        """KILL is a power cut; STOP lets the emulator stand still, and the guest's clock jumps
        when it goes on; TERM is an orderly shutdown."""
        number = parse_signal(signal_text)
        if not self.running():
            raise LabError(f"{self.name}: does not run")
        if number == signal.SIGKILL:
            self.power("off")
        elif number == signal.SIGTERM:
            if not self.stop():
                raise LabError(f"{self.name}: did not shut down in {SHUTDOWN_SECONDS} s, and was "
                               "switched off")
        elif number == signal.SIGSTOP:
            self.process.signal(number)
        elif number == signal.SIGCONT:
            self.process.signal(number)
            self.machine.resume()
        else:
            raise LabError(f"{self.name}: a machine is sent KILL, TERM, STOP or CONT; for a "
                           f"process in it: lab exec --host {self.name} -- pkill …")

    def power(self, what):
        """off, on, reset: as by its button; suspend, resume: as by a hypervisor."""
        if what == "on":
            self.start()
            return
        if not self.running():
            raise LabError(f"{self.name}: is off")
        if what == "off":
            self.cut_power()
        elif what == "reset":
            self.machine.reset()
            self.guest.hang_up()
        else:
            getattr(self.machine, what)()

    def cut_power(self):
        """Whether it runs or not."""
        self.machine.switch_off()
        self.guest.hang_up()

    def stop(self):
        """An orderly shutdown; after a bounded wait, without power. True when it was orderly."""
        if not self.running():
            return True
        self.process.signal(signal.SIGCONT)
        self.machine.resume()
        asked = self.guest.try_shell("systemctl start poweroff.target --no-block", 60)
        clean = asked.returncode == 0 and self.machine.await_off(SHUTDOWN_SECONDS)
        self.machine.switch_off()
        self.guest.hang_up()
        return clean

    def state(self):
        if not self.running():
            return "stopped"
        if self.process.stands_still() or self.machine.suspended():
            return "suspended"
        return "running" if self.machine.is_up() else "booting"

    def status(self):
        return {"host": self.name, "kind": self.kind, "state": self.state(),
                "pid": self.process.pid(), "where": self.where(), "log": self.log_path,
                "kernel": self.machine.kernel, "cut": self.cluster.network.cuts(self.name)}

    def log_lines(self, count):
        """Its journal; while it is off, or stands still, what its console said."""
        if self.state() == "running":
            lines = f" --lines {count}" if count is not None else ""
            return self.guest.shell(f"journalctl --boot --no-pager{lines}").splitlines(True)
        with open(self.log_path, errors="replace") as log:
            text = log.readlines()
        return text if count is None else text[-count:]

    def marks(self, since):
        """By its own clock; none while it is off, or stands still."""
        if self.state() != "running":
            return []
        said = self.guest.try_shell(f"journalctl --identifier={self.daemon} --since=@{int(since)} "
                                    "--output=json --output-fields=MESSAGE,PRIORITY").stdout
        return [mark for mark in marks_of_journal(said.splitlines()) if mark[0] >= since]

    def life(self):
        """Systemd starts a daemon again that has ended."""
        return self.guest.try_shell(f"systemctl show --property=InvocationID {self.unit}").stdout


class San(MachineHost):
    """LIO, with a portal on each path."""
    kind, memory_mib = "target", 384
    masked = ("multipathd.service", "multipathd.socket", "iscsid.service", "iscsid.socket",
              "open-iscsi.service")

    def where(self):
        return " ".join(self.portals())

    def portals(self):
        return [f"{address(path, self.number)}:3260" for path in ("path1", "path2")]

    def delay(self, _name, _ms):
        raise LabError("LUNs of machines cannot be slowed; make a cluster by lab up --backend "
                       "netns --lun-backend iscsi --lun-delays")

    def delay_none(self):
        pass


class MdcMachine(MachineHost, Mdc):
    memory_mib, answer_ms = 512, 10_000
    unit, daemon = "reel-mdcd.service", "reel-mdcd"
    masked = ("rtslib-fb-targetctl.service",)

    def __init__(self, name, cluster, number, kernel, mdc_address):
        MachineHost.__init__(self, name, cluster, number, kernel)
        self.address = mdc_address

    def role(self):
        """active, standby, or why it is neither."""
        return Mdc.role(self) if self.state() == "running" else self.state()

    def status(self):
        # (What whoever installs bare machines makes of them is not known here.)
        spec = self.cluster.spec
        role = {"role": self.role()} if spec.mdcs > 1 and not spec.bare else {}
        return {**MachineHost.status(self), **role}


class Workstation(MachineHost):
    kind, memory_mib = "client", 640
    unit, daemon = MOUNT_UNIT, "mount.reelfs"
    masked = ("rtslib-fb-targetctl.service",)
    mount_point = MOUNT_POINT

    @property
    def known_as(self):
        return f"of {self.name} at {MOUNT_POINT}"

    def give_programs(self, paths):
        self.guest.send(paths, PROGRAMS)

    def python(self, program, *words):
        return self.guest.command([shlex.join(["python3", "-B", os.path.join(PROGRAMS, program),
                                               *words])])

    def where(self):
        """Its table of mounts is asked, not the mount, which may hang."""
        mounted = self.state() == "running" and self.guest.try_shell(
            f"grep -q ' {MOUNT_POINT} fuse.reelfs ' /proc/self/mounts", 30).returncode == 0
        return f"{self.lan}:{MOUNT_POINT}" + ("" if mounted else " (not mounted)")

