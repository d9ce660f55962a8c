"""One emulated machine: its disk, its emulator's process, and what is done to it from outside.

Switching it off is a loss of power: the emulator is killed. The machine's own memory is gone then,
and its disks have what it had flushed to them; LUNs have all that was answered. It is up when its
last unit has written READY to the second serial line.
"""
import base64
import os
import signal
import subprocess
import time

from process import LabError, Process, last_lines
from spec import installed_program
from vm.qmp import Monitor
from vm.wires import NETS, SLOTS, mac

BOOT_SECONDS, SNAPSHOT_SECONDS = 400, 240
DISK_FORMAT = "qcow2"
# A write to it is done when it is answered, as with a cache that outlasts a loss of power.
LUN = ",write-cache=off,logical_block_size=4096,physical_block_size=4096"
SOCKET_PATH_MOST = 85  # what ssh adds to its own included
# The disk that it boots from comes before the others, in the order of the bus.
RANDOM_SLOT, DISK_SLOT = 0x02, 0x03
LUN_SLOTS = sorted(set(range(0x04, 0x20)) - set(SLOTS.values()))
# An interrupt behind cmpxchg16b, as QEMU 7.2 emulates it, found an address for flags, and ended the
# guest's kernel by a double fault. Kernels do without it.
CPU = "max,cx16=off"
# An emulated processor has better things to do than to test the kernel's ciphers and clocks.
BOOT_WORDS = ("root=/dev/vda rw console=ttyS0 quiet loglevel=4 panic=5 audit=0 mitigations=off "
              "nokaslr no5lvl cryptomgr.notests tsc=reliable random.trust_cpu=on 8250.nr_uarts=2 "
              "module_blacklist=acpi_cpufreq,powernow_k8,intel_rapl_msr,button,evdev,psmouse,"
              "pcspkr,kvm,kvm_amd,kvm_intel")


def make_disk(path, *more):
    """A disk of a machine, of the kind that holds snapshots."""
    done = subprocess.run([installed_program("qemu-img"), "create", "-q", "-f", DISK_FORMAT, path,
                           *more], capture_output=True, text=True)
    if done.returncode != 0:
        raise LabError(f"{path}: qemu-img: {done.stderr.strip()}")


class Machine:
    """`masked`: units that have no work there. `disks`: files (make_disk) besides the one
    that it boots from. `key`: the public one of whoever may log in."""

    def __init__(self, name, directory, number, memory_mib, kernel, masked=(), disks=()):
        self.name, self.dir, self.number = name, directory, number
        self.memory_mib, self.kernel, self.masked, self.disks = memory_mib, kernel, masked, disks
        self.process = Process(name, self._path("pid"), self._path("emulator.log"))
        self.monitor = Monitor(name, self._path("monitor"))
        self.patient_monitor = Monitor(name, self._path("monitor"), SNAPSHOT_SECONDS)

    def _path(self, name):
        return os.path.join(self.dir, name)

    @property
    def console_path(self):
        return self._path("console")

    def make(self, image):
        os.makedirs(self.dir, exist_ok=True)
        if len(self._path("monitor")) > SOCKET_PATH_MOST:
            raise LabError(f"{self.dir}: too long a path for the machine's sockets")
        if not os.path.exists(self._path("disk")):
            make_disk(self._path("disk"), "-b", image.root, "-F", "raw")

    def command(self, image, key):
        kernel, first = image.kernel(self.kernel)
        words = [BOOT_WORDS, f"systemd.hostname={self.name}", f"lab.number={self.number}",
                 *[f"systemd.mask={unit}" for unit in self.masked]]
        secret = base64.b64encode(key.encode()).decode()
        return [
            installed_program("qemu-system-x86_64"), "-name", self.name, "-nodefaults",
            "-no-user-config", "-display", "none", "-M", "pc,usb=off", "-accel",
            "tcg,thread=multi,tb-size=128", "-cpu", CPU, "-smp", "1",
            "-m", f"{self.memory_mib}M", "-rtc", "base=utc,clock=host",
            "-kernel", kernel, "-initrd", first, "-append", " ".join(words),
            "-smbios", "type=11,value=io.systemd.credential.binary:ssh.authorized_keys.root="
                       + secret,
            *self._disk("disk", self._path("disk"), DISK_SLOT),
            *[word for number, (path, slot) in enumerate(zip(self.disks, LUN_SLOTS), 1)
              for word in self._disk(f"lun{number}", path, slot, LUN)],
            *[word for net in NETS for word in self._card(net)],
            "-device", f"virtio-rng-pci,addr={RANDOM_SLOT:#x}",
            "-chardev", f"socket,id=console,path={self.console_path},server=on,wait=off,"
                        f"logfile={self._path('log')},logappend=on", "-serial", "chardev:console",
            "-chardev", f"file,id=ready,path={self._path('ready')}", "-serial", "chardev:ready",
            "-qmp", f"unix:{self.monitor.path},server=on,wait=off"]

    @staticmethod
    def _disk(name, path, slot, more=""):
        """What its machine has flushed is in this machine's memory (unsafe): that is durable as
        long as this machine runs."""
        return ["-drive", f"if=none,id={name},file={path},format={DISK_FORMAT},cache=unsafe,"
                "discard=unmap", "-device", f"virtio-blk-pci,drive={name},"
                f"serial={name},addr={slot:#x}{more}"]

    def _card(self, net):
        return ["-netdev", f"tap,id={net},ifname={self.name}.{net},script=no,downscript=no",
                "-device", f"virtio-net-pci,id={net}-card,netdev={net},"
                           f"mac={mac(net, self.number)},addr={SLOTS[net]:#x},romfile="]

    def running(self):
        return self.process.pid() is not None

    def switch_on(self, image, key, pulled, inside, more=()):
        if self.running():
            return
        for name in ("ready", "monitor", "console"):
            if os.path.exists(self._path(name)):
                os.unlink(self._path(name))
        self.process.spawn(inside + self.command(image, key) + list(more))
        for cable in pulled:
            self.pull(cable, True)

    def take_snapshot(self, name):
        """Of its memory and its disks, in their files, while it stands still."""
        said = self.patient_monitor.execute("human-monitor-command",
                                            **{"command-line": f"savevm {name}"})
        if said.strip():
            raise LabError(f"{self.name}: no snapshot: {said.strip()}")

    def revert(self, name, image, key, inside):
        """As it was at that snapshot, and standing still. It is off before."""
        self.switch_on(image, key, (), inside, ["-loadvm", name, "-S"])
        self._await_monitor()
        try:
            self.patient_monitor.execute("query-status")
        except LabError as error:
            raise LabError(f"{error}; the emulator's log ends:"
                           f"{last_lines(self.process.log_path)}") from None
        with open(self._path("ready"), "w") as file:
            file.write("READY\n")  # it has said so before

    def is_up(self):
        try:
            with open(self._path("ready"), "rb") as file:
                return b"READY" in file.read()
        except FileNotFoundError:
            return False

    def await_up(self, seconds=BOOT_SECONDS):
        until = time.monotonic() + seconds
        while not self.is_up():
            if not self.running():
                raise LabError(f"{self.name}: the emulator has ended; its log ends:"
                               f"{last_lines(self.process.log_path)}")
            if time.monotonic() > until:
                raise LabError(f"{self.name}: not up after {seconds} s; its console "
                               f"({self._path('log')}) ends:{last_lines(self._path('log'))}")
            time.sleep(0.1)  # a file that grows is not waited on

    def switch_off(self):
        """What a power cut does."""
        self.process.signal(signal.SIGCONT)
        self.process.kill()

    def await_off(self, seconds):
        """True when it has switched itself off within the time."""
        return self.process.wait_gone(seconds)

    def reset(self):
        os.truncate(self._path("ready"), 0)
        self.monitor.execute("system_reset")

    def suspend(self):
        """As a hypervisor does: its clock stands still, too."""
        self.monitor.execute("stop")

    def resume(self):
        self.monitor.execute("cont")

    def suspended(self):
        return self.running() and not self.monitor.execute("query-status")["running"]

    def pull(self, cable, pulled):
        """The machine sees that its link has no carrier, or has one again."""
        if self.running():
            self._await_monitor()
            self.monitor.execute("set_link", name=cable, up=not pulled)

    def _await_monitor(self, seconds=20):
        until = time.monotonic() + seconds
        while not os.path.exists(self.monitor.path) and time.monotonic() < until:
            time.sleep(0.02)  # the emulator makes it as it starts
