"""A host that boots: the systemd of this machine as process 1 in namespaces of its own, with its
own /etc, /run, journal and programs, and the network of this machine.

Its units are the stock ones that order a boot, and stand-ins for the network and open-iscsi with
the order that Debian's have; its mounts come from its fstab, by systemd's own generator.
"""
import contextlib
import os
import select
import shutil
import subprocess
import textwrap

from cluster import BIN

SYSTEMD = "/lib/systemd/systemd"
GENERATOR = "/lib/systemd/system-generators/systemd-fstab-generator"
STOCK = """basic.target emergency.target final.target local-fs-pre.target local-fs.target
network-online.target network.target paths.target poweroff.target remote-fs-pre.target
remote-fs.target shutdown.target slices.target sockets.target swap.target sysinit.target
systemd-journald-dev-log.socket systemd-journald.service systemd-journald.socket
systemd-poweroff.service systemd-user-sessions.service timers.target umount.target""".split()
DEVICES = "autofs full fuse null pts random shm tty urandom zero".split()

# What "goes" says is the state of the host when that service ends.
GOES = "/bin/sh -c 'if pgrep -x mount.reelfs; then echo {0} client >{1}; else echo {0} >{1}; fi'"
UNITS = {
    "boot.target": """
        [Unit]
        Requires=basic.target
        Wants=network-online.target remote-fs.target network.service open-iscsi.service
        Wants=systemd-user-sessions.service logins.service up.service
        After=basic.target
        AllowIsolate=yes""",
    "network.service": """
        [Unit]
        DefaultDependencies=no
        Before=network.target network-online.target shutdown.target
        Wants=network.target
        Conflicts=shutdown.target
        [Service]
        Type=oneshot
        RemainAfterExit=yes
        ExecStart=/bin/true
        ExecStop={network_goes}""",
    "open-iscsi.service": """
        [Unit]
        Wants=network-online.target remote-fs-pre.target
        After=network-online.target
        Before=remote-fs-pre.target
        DefaultDependencies=no
        Conflicts=shutdown.target
        Before=shutdown.target
        [Service]
        Type=oneshot
        RemainAfterExit=yes
        ExecStart=/bin/true
        ExecStop={iscsi_goes}""",
    # systemd can be asked.
    "up.service": """
        [Unit]
        After=basic.target
        [Service]
        Type=oneshot
        ExecStart=/bin/sh -c 'echo up >{fifo}'""",
    # People can log in.
    "logins.service": """
        [Unit]
        After=systemd-user-sessions.service
        [Service]
        Type=oneshot
        ExecStart=/bin/sh -c 'echo logins >{fifo}'""",
}

BOOT = f"""
set -e
mount --make-rprivate /
mount -t proc proc /proc
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
mount -t tmpfs tmpfs /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs "$1/dev"
for name in {" ".join(DEVICES)}; do
  if [ ! -e /dev/$name ]; then continue; fi
  if [ -d /dev/$name ]; then mkdir "$1/dev/$name"; else touch "$1/dev/$name"; fi
  mount --rbind /dev/$name "$1/dev/$name"
done
mount --move "$1/dev" /dev
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$1/etc,workdir=$1/work" /etc
mount --bind "$1/sbin" /usr/sbin
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/log
mount -t tmpfs tmpfs /mnt
mkdir -p /run/generated
SYSTEMD_FSTAB=/etc/fstab {GENERATOR} /run/generated /run/generated /run/generated
SYSTEMD_UNIT_PATH="$1/units:/run/generated" container=reelfs exec {SYSTEMD} --system \\
  --unit=boot.target
"""


def why_not():
    """Why no host can boot here; None where one can."""
    missing = [path for path in (SYSTEMD, GENERATOR, "/lib/systemd/systemd-journald")
               if not os.path.exists(path)]
    return f"no {missing[0]}: apt-get install systemd" if missing else None


class BootedHost:
    """`fstab`: its lines. `units`: text by name, beside the stock ones."""

    def __init__(self, directory, fstab="", units=None):
        self.dir = directory
        for name in ("dev", "etc", "work", "sbin", "units"):
            os.makedirs(os.path.join(directory, name))
        self.fifo = self._place("fifo")
        os.mkfifo(self.fifo)
        self._pipe = os.open(self.fifo, os.O_RDWR | os.O_NONBLOCK)
        self._events = []
        self.write("etc/fstab", fstab)
        self.write("etc/machine-id", "0123456789abcdef0123456789abcdef\n")
        for name in STOCK:
            shutil.copy(f"/lib/systemd/system/{name}", self._place("units"))
        known = {"fifo": self.fifo, "network_goes": GOES.format("network", self.fifo),
                 "iscsi_goes": GOES.format("iscsi", self.fifo)}
        for name, text in {**UNITS, **(units or {})}.items():
            text = textwrap.dedent(text)
            for word, value in known.items():
                text = text.replace("{" + word + "}", value)
            self.write(f"units/{name}", text)
        for name in STOCK:
            if "journald" in name:
                self.enable(name, "sysinit.target")
        for program, names in (("umount.reelfs", ("umount.fuse", "umount.fuse.reelfs")),
                               ("mount.reelfs", ("mount.reelfs", "mount.fuse.reelfs"))):
            for name in names:
                os.symlink(os.path.join(BIN, program), self._place(f"sbin/{name}"))
        self._machine = None

    def _place(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text):
        """A file of the host, before it boots: etc/NAME or units/NAME."""
        os.makedirs(os.path.dirname(self._place(name)), exist_ok=True)
        with open(self._place(name), "w", encoding="utf-8") as file:
            file.write(text)

    def enable(self, unit, target):
        """As systemctl(1), before it boots."""
        os.makedirs(self._place(f"units/{target}.wants"), exist_ok=True)
        os.symlink(f"../{unit}", self._place(f"units/{target}.wants/{unit}"))

    def boot(self):
        """Power on; returns when systemd can be asked."""
        with open(self._place("console"), "w", encoding="utf-8") as console:
            self._machine = subprocess.Popen(
                ["unshare", "--fork", "--kill-child=KILL", "-p", "-m", "-u", "-i", "-C",
                 "sh", "-c", BOOT, "sh", self.dir],
                stdin=subprocess.DEVNULL, stdout=console, stderr=console)
        self.expect("up")
        with open(f"/proc/{self._machine.pid}/task/{self._machine.pid}/children") as children:
            self.pid = int(children.read().split()[0])

    def expect(self, event, seconds=60):
        """Waits for it."""
        while event not in self._read_events():
            assert select.select([self._pipe], [], [], seconds)[0], \
                f"{event!r} never came, but {self._events}:\n{self._console()}"
        self._events.remove(event)

    def _console(self):
        with open(self._place("console"), encoding="utf-8", errors="replace") as console:
            return console.read()[-2000:]

    def _read_events(self):
        with contextlib.suppress(BlockingIOError):
            self._events += os.read(self._pipe, 4096).decode().splitlines()
        return self._events

    def inside(self, *command):
        """What runs a command there, from here."""
        return ["nsenter", "-t", str(self.pid), "-m", "-p", "-u", "-i", "-C", "--", *command]

    def run(self, *command, check=True, seconds=60):
        """The output of a command on the host."""
        done = subprocess.run(self.inside(*command), stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds,
                              check=False)
        assert not check or done.returncode == 0, f"{command}: {done.stdout}"
        return done.stdout

    def state(self, unit):
        return self.run("systemctl", "show", "-P", "ActiveState", unit).strip()

    def journal(self, unit):
        return self.run("journalctl", "-q", "--no-pager", "-o", "cat", "-u", unit).splitlines()

    def await_line(self, unit, words, seconds=60):
        """Waits until the unit's journal says so; the line."""
        follow = subprocess.Popen(
            self.inside("journalctl", "-q", "-f", "-n", "all", "-o", "cat", "-u", unit),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        told = ""
        try:
            while words not in told or not told.endswith("\n"):
                assert select.select([follow.stdout], [], [], seconds)[0], \
                    f"{words!r} never came, but {told}"
                told += os.read(follow.stdout.fileno(), 4096).decode()
        finally:
            follow.kill()  # (what it started ends with the host)
            follow.stdout.close()
            follow.wait()
        return next(line for line in told.splitlines() if words in line)

    def path(self, name):
        """A path of the host, as one of this machine."""
        return f"/proc/{self.pid}/root{name}"

    def power_off(self, seconds=60):
        """An orderly shutdown; what nobody has expected yet, in order."""
        self.run("systemctl", "poweroff", "--no-block")
        self._machine.wait(seconds)
        self._machine = None
        return self._read_events()

    def cut_power(self):
        if self._machine is not None:
            self._machine.kill()
            self._machine.wait()
            self._machine = None

    def down(self):
        self.cut_power()
        os.close(self._pipe)
