"""The root image of all machines: a small Debian 12, made by mmdebstrap once and cached.

It lies in a directory named by a hash of its recipe, beside the kernels, and nobody writes to it:
each machine has an overlay of its own. What differs between hosts (name, addresses, keys) comes to
a machine from outside when it is switched on, so that one image serves all of them.
"""
import fcntl
import hashlib
import os
import shutil
import subprocess

from process import LabError, last_lines
from spec import installed_program
from vm.wires import NETS, SLOTS

CACHE = "/var/cache/reelfs-lab"
SUITE = "bookworm"
ROOT_SIZE = "4G"
# The packages of each kernel that Debian 12 has. The cloud flavour has all modules that are needed.
KERNEL_PACKAGES = {"6.1": "linux-image-cloud-amd64",
                   "6.12": "linux-image-6.12-cloud-amd64"}
PACKAGES = ("systemd-sysv", "udev", "dbus", "kmod", "tiny-initramfs", "iproute2", "iputils-ping",
            "openssh-server", "procps", "fuse3", "open-iscsi", "multipath-tools", "dmsetup",
            "sg3-utils", "targetcli-fb", "python3", "python3-pytest", "acl", "attr", "e2fsprogs",
            "rsync", "xz-utils")
PROGRAMS = {"mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs", "qemu-img": "qemu-utils",
            "qemu-system-x86_64": "qemu-system-x86", "ssh": "openssh-client"}
BOOT_MODULES = "virtio_pci,virtio_blk"
# What a machine of a lab does without: it is emulated, and each of these takes CPU from the others.
MASKED = ("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer",
          "e2scrub_reap.service", "fstrim.timer", "systemd-pstore.service", "getty@tty1.service",
          "systemd-update-utmp.service", "systemd-update-utmp-runlevel.service",
          "systemd-logind.service", "systemd-binfmt.service", "systemd-sysusers.service",
          "proc-sys-fs-binfmt_misc.automount", "dev-hugepages.mount", "dev-mqueue.mount",
          "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "modprobe@drm.service",
          "modprobe@loop.service", "systemd-tmpfiles-clean.timer")
NO_DOCUMENTS = ("path-exclude=/usr/share/doc/*", "path-exclude=/usr/share/man/*",
                "path-exclude=/usr/share/locale/*", "path-exclude=/usr/share/info/*",
                "path-exclude=/usr/share/lintian/*", "path-include=/usr/share/doc/reelfs/*")

# Before packages are unpacked: $1 is the image's root.
PREPARE = r"""
mkdir -p "$1/etc/tiny-initramfs"
printf '%s\n' AUTO_MODULES=no MICROCODE=no INCLUDE_MODULES={modules} \
  >"$1/etc/tiny-initramfs/tiny-initramfs.conf"
"""
# After that.
CUSTOMIZE = r"""
set -e
cd "$1"
for unit in {masked}; do ln -sf /dev/null "etc/systemd/system/$unit"; done
# Its first program cannot read compressed modules, and nobody else needs them so.
find lib/modules -name '*.ko.xz' -exec unxz {{}} +
mkdir boot/lab
for modules in lib/modules/*; do
  version=${{modules##*/}}
  chroot . depmod "$version"
  chroot . mktirfs -o "/boot/lab/initrd-$version" -m no -M no --include-modules={modules} "$version"
  cp "boot/vmlinuz-$version" "boot/lab/"
done
put() {{ mkdir -p "${{1%/*}}"; cat >"$1"; }}
put etc/systemd/system/serial-getty@ttyS0.service.d/lab.conf <<'END'
[Service]
ExecStart=
ExecStart=-/sbin/agetty --autologin root --noclear --keep-baud 115200 %I linux
END
put etc/systemd/journald.conf <<'END'
[Journal]
Storage=persistent
SystemMaxUse=64M
END
put etc/ssh/sshd_config.d/lab.conf <<'END'
UseDNS no
UsePAM no
PermitRootLogin prohibit-password
MaxSessions 100
END
{networks}
put usr/local/sbin/lab-network <<'END'
#!/bin/sh
# Addresses by the host's number, which is on the kernel's command line: "up" or "down".
number=$(sed -n 's/.*lab\.number=\([0-9]*\).*/\1/p' /proc/cmdline)
while read -r net prefix; do
  if [ "$1" = up ]; then
    ip address replace "$prefix.$number/24" dev "$net"
    ip link set "$net" up
  elif [ "$net" != admin ]; then
    ip link set "$net" down
  fi
done <<NETS
{prefixes}
NETS
END
chmod 755 usr/local/sbin/lab-network
put etc/systemd/system/lab-network.service <<'END'
[Unit]
Description=Addresses of this host
DefaultDependencies=no
Requires={devices}
After={devices} systemd-sysctl.service
Before=network.target network-online.target shutdown.target
Wants=network.target
Conflicts=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/lab-network up
ExecStop=/usr/local/sbin/lab-network down

[Install]
WantedBy=multi-user.target network-online.target
END
put usr/local/sbin/lab-clock <<'END'
#!/usr/bin/python3
# Sets the clock when the hardware clock shows a new second: the kernel has read whole seconds, and
# clocks of hosts are to agree as NTP makes them.
import time
def shown():
    with open("/sys/class/rtc/rtc0/since_epoch") as file:
        return int(file.read())
first = shown()
while (second := shown()) == first:
    time.sleep(0.001)
time.clock_settime(time.CLOCK_REALTIME, second)
END
chmod 755 usr/local/sbin/lab-clock
put etc/systemd/system/lab-clock.service <<'END'
[Unit]
Description=Clocks of hosts agree
DefaultDependencies=no
Before=network.target

[Service]
Type=oneshot
ExecStart=/usr/local/sbin/lab-clock

[Install]
WantedBy=multi-user.target
END
put etc/systemd/system/lab-ready.service <<'END'
[Unit]
Description=Tell the lab that this host is there
Requires=lab-network.service
After=lab-network.service ssh.service
DefaultDependencies=no

[Service]
Type=oneshot
ExecStart=/bin/sh -c 'echo READY >/dev/ttyS1'

[Install]
WantedBy=multi-user.target
END
put etc/systemd/system/systemd-udev-trigger.service.d/lab.conf <<'END'
[Service]
ExecStart=
ExecStart=-udevadm trigger --action=add --subsystem-match=virtio --subsystem-match=block \
  --subsystem-match=net --subsystem-match=misc
ExecStart=-udevadm trigger --action=add --subsystem-match=tty --sysname-match=ttyS0
END
mkdir -p var/log/journal etc/rtslib-fb-target/pr
chroot . systemctl enable lab-clock.service lab-network.service lab-ready.service
rm -f etc/machine-id var/lib/dbus/machine-id etc/iscsi/initiatorname.iscsi
touch etc/machine-id
: >etc/fstab
rm -rf var/cache/apt/*.bin var/lib/apt/lists/*_*
"""


def why_not():
    """Why no machines can be made here, or None."""
    for program, package in PROGRAMS.items():
        if installed_program(program) is None:
            return f"no {program} here; install Debian's package {package}"
    if os.getuid() != 0:
        return "machines and their networks take root"
    if not os.path.exists("/dev/net/tun"):
        return "no /dev/net/tun here: machines have no network without it"
    return None


class Image:
    """`libraries`: the packages that ReelFS's own depend on; a machine reaches no archive."""

    def __init__(self, libraries, cache=CACHE):
        self.libraries = sorted(libraries)
        self.cache = cache
        self.dir = os.path.join(cache, f"root-{self._hash()}")
        self.root = os.path.join(self.dir, "root.img")

    def kernel(self, series):
        """Paths of the kernel of that series, such as 6.1, and of its first file system."""
        found = [name for name in os.listdir(self.dir) if name.startswith(f"vmlinuz-{series}.")]
        if not found:
            raise LabError(f"{self.dir}: no kernel {series} there; remove it, and lab up makes it "
                           "again")
        version = found[0].removeprefix("vmlinuz-")
        return os.path.join(self.dir, found[0]), os.path.join(self.dir, f"initrd-{version}")

    def make(self, tell):
        """Unless it is there. Whoever comes while it is made waits for it."""
        os.makedirs(self.cache, exist_ok=True)
        lock = os.open(self.cache, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if os.path.exists(self.dir):
                return
            tell(f"making the root image, once, in {self.dir}")
            work = self.dir + ".new"
            shutil.rmtree(work, ignore_errors=True)
            os.mkdir(work)
            try:
                self._build(work)
            except BaseException:
                shutil.rmtree(os.path.join(work, "tree"), ignore_errors=True)
                raise
            os.rename(work, self.dir)
        finally:
            os.close(lock)

    def _scripts(self):
        links = "\n".join(f"put etc/systemd/network/10-{net}.link <<'END'\n[Match]\n"
                          f"Path=pci-0000:00:{slot:02x}.0\n[Link]\nName={net}\nEND"
                          for net, slot in SLOTS.items())
        return (PREPARE.format(modules=BOOT_MODULES), CUSTOMIZE.format(
            modules=BOOT_MODULES, masked=" ".join(MASKED), networks=links,
            prefixes="\n".join(f"{net} {prefix}" for net, prefix in NETS.items()),
            devices=" ".join(f"sys-subsystem-net-devices-{net}.device" for net in NETS)))

    def _packages(self):
        return [*PACKAGES, *KERNEL_PACKAGES.values(), *self.libraries]

    def _hash(self):
        recipe = repr((SUITE, ROOT_SIZE, self._packages(), NO_DOCUMENTS, self._scripts()))
        return hashlib.sha256(recipe.encode()).hexdigest()[:16]

    def _build(self, work):
        tree, log = os.path.join(work, "tree"), os.path.join(work, "log")
        hooks = []
        for name, script in zip(("extract", "customize"), self._scripts()):
            path = os.path.join(work, name)
            with open(path, "w") as file:
                file.write("#!/bin/sh\n" + script)
            os.chmod(path, 0o755)
            hooks.append(f"--{name}-hook={path} \"$1\"")
        self._run([installed_program("mmdebstrap"), "--mode=root", "--variant=apt",
                   *[f"--dpkgopt={option}" for option in NO_DOCUMENTS],
                   '--aptopt=Apt::Install-Recommends "false"', *hooks,
                   f"--include={','.join(self._packages())}", SUITE, tree, *self._sources()], log)
        for name in os.listdir(os.path.join(tree, "boot", "lab")):
            shutil.move(os.path.join(tree, "boot", "lab", name), work)
        self._run([installed_program("mke2fs"), "-q", "-t", "ext4", "-d", tree,
                   os.path.join(work, "root.img"), ROOT_SIZE], log)
        shutil.rmtree(tree)

    def _sources(self):
        """Debian's archive as this machine knows it, or as everybody does."""
        return [f"deb http://deb.debian.org/debian {SUITE} main",
                f"deb http://deb.debian.org/debian {SUITE}-updates main",
                f"deb http://deb.debian.org/debian-security {SUITE}-security main"]

    @staticmethod
    def _run(command, log_path):
        with open(log_path, "ab") as log:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if done.returncode != 0:
            raise LabError(f"{os.path.basename(command[0])}: failed with {done.returncode}; its "
                           f"log ({log_path}) ends:{last_lines(log_path)}")
