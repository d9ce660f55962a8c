"""From booted machines to a mounted volume, by what an administrator would do: docs/operations.md.

Packages by apt, open-iscsi and multipath by their files, `reeladm setup` for the configuration, and
fstab for the mounts. Each step is a shell script that runs on its host.
"""
import os
import shutil
import subprocess

from luns import run_program
from process import LabError
from vm.hosts import MOUNT_POINT
from vm.wires import address

HERE = os.path.dirname(os.path.abspath(__file__))
SAN = os.path.join(HERE, "..", "..", "san")  # what administrators are given for theirs
PACKAGES = {"mdc": ("reelfs-tools", "reelfs-mdc"), "client": ("reelfs-tools", "reelfs-client")}
# A machine's memory is small.
CACHE_MIB = 64
FSTAB = f"reel {MOUNT_POINT} reelfs _netdev,nofail,x-systemd.mount-timeout=infinity 0 0"

INITIATOR = """
echo InitiatorName={initiator} >/etc/iscsi/initiatorname.iscsi
/root/iscsid-settings
systemctl restart multipathd iscsid
iscsiadm -m discovery -t sendtargets -p {portal} >/dev/null
iscsiadm -m node --loginall=automatic >/dev/null
"""

LOGINS = """
cp /usr/share/doc/reelfs/examples/reelfs-iscsi-login.* /etc/systemd/system/
systemctl enable --now reelfs-iscsi-login.timer
"""

AWAIT_LUNS = """
for i in $(seq 120); do
  missing=
  for wwid in {wwids}; do [ -b /dev/mapper/$wwid ] || missing="$missing $wwid"; done
  [ -z "$missing" ] && exit 0
  sleep 0.5
done
echo "no multipath device for$missing" >&2; multipath -ll >&2; exit 1
"""


class PackageSet:
    """The packages that machines get: those of a directory, or made from what is built."""

    def __init__(self, directory, spec):
        self.spec, self.dir = spec, spec.packages or os.path.join(directory, "packages")

    def make(self, tell):
        if self.spec.packages or os.path.isdir(self.dir):
            return
        if not self.spec.bin:
            raise LabError("--backend vm: machines are given packages; say --packages DIR, or call "
                           "lab from a checkout that is built")
        tell("making the packages")
        builder = os.path.join(HERE, "..", "..", "package")
        done = subprocess.run(
            [builder, "--no-install", "--from", os.path.dirname(self.spec.bin), "--output",
             self.dir + ".new"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            env={**os.environ, "DEB_BUILD_OPTIONS": "noautodbgsym"})
        if done.returncode != 0:
            shutil.rmtree(self.dir + ".new", ignore_errors=True)
            raise LabError(f"deploy/package: {(done.stderr or done.stdout).strip()[-500:]}")
        os.rename(self.dir + ".new", self.dir)

    def path(self, name):
        found = sorted(file for file in os.listdir(self.dir)
                       if file.startswith(name + "_") and file.endswith(".deb"))
        if len(found) != 1:
            raise LabError(f"{self.dir}: {len(found)} packages {name}; one is needed")
        return os.path.join(self.dir, found[0])

    def libraries(self):
        """Packages of Debian that they depend on."""
        wanted = set()
        for name in {name for names in PACKAGES.values() for name in names}:
            done = subprocess.run(["dpkg-deb", "-f", self.path(name), "Depends"],
                                  capture_output=True, text=True, check=True)
            wanted |= {word.split()[0].split(":")[0] for word in done.stdout.split(",")}
        return sorted(name for name in wanted if not name.startswith("reelfs-"))


class Installer:
    def __init__(self, cluster):
        self.cluster, self.luns = cluster, cluster.luns
        self.san = cluster.targets[0]
        self.set = os.path.join(cluster.dir, "set")

    def names(self):
        """/etc/hosts, the same on all hosts."""
        return "127.0.0.1 localhost\n" + "".join(
            f"{host.lan} {host.name}\n" for host in self.cluster.hosts)

    def initiator(self, host):
        return f"{self.luns.iqn}:{host.name}"

    def write_set(self):
        """The configuration of all hosts, and the little in it that an administrator changes."""
        cluster, spec = self.cluster, self.cluster.spec
        shutil.rmtree(self.set, ignore_errors=True)
        words = ["setup", self.set, "--volume", spec.volume, "--luns", self.luns.patterns()[0]]
        for mdc in cluster.mdcs:
            words += ["--mdc", f"{mdc.name},{mdc.lan}"]
        for client in cluster.clients:
            words += ["--client", client.name]
        run_program([spec.program("reeladm"), *words])
        for mdc in cluster.mdcs:
            path = os.path.join(self.set, "hosts", mdc.name, "mdc.toml")
            with open(path) as file:
                text = file.read()
            terms = (f"session_lease_ms = {spec.session_lease_ms}\nseat_ms = {spec.seat_ms}\n"
                     f'names = "{spec.names}"\ncache_mib = {CACHE_MIB}\n')
            with open(path, "w") as file:
                file.write(text.replace("[[volume]]", terms + "\n[[volume]]", 1))

    def names_on(self, host):
        host.guest.put("/etc/hosts", self.names())

    def san_up(self):
        """LUNs and portals on the SAN's host."""
        self.san.guest.send([os.path.join(SAN, "lio-target")], "/root")
        luns = " ".join(f"{name}=/dev/disk/by-id/virtio-lun{number},{self.luns.serial(name)}"
                        for number, name in enumerate(self.luns.names(), 1))
        initiators = ",".join(map(self.initiator, self.cluster.mdcs + self.cluster.clients))
        self.san.guest.shell(
            f"/root/lio-target {self.luns.iqn} {','.join(self.san.portals())} {initiators} {luns} "
            ">/run/lio-target.log\ntest -s /etc/rtslib-fb-target/saveconfig.json\n")

    def packages_on(self, host):
        """As a user would: apt, of files that were copied there; and what reeladm setup wrote."""
        paths = [self.cluster.packages.path(name) for name in PACKAGES[host.kind]]
        host.guest.send(paths, "/root/packages")
        host.guest.shell("DEBIAN_FRONTEND=noninteractive apt-get -q install -y "
                         "/root/packages/*.deb >/root/packages/log 2>&1 || "
                         "{ tail -n 5 /root/packages/log >&2; exit 1; }")
        place = os.path.join(self.set, "hosts", host.name)
        host.guest.send([os.path.join(place, name) for name in os.listdir(place)], "/etc/reelfs")
        host.guest.shell("reeladm config check")

    def initiator_on(self, host):
        """Its LUNs, by both paths."""
        host.guest.send([os.path.join(SAN, "multipath.conf")], "/etc")
        host.guest.send([os.path.join(SAN, "iscsid-settings")], "/root")
        host.guest.shell(INITIATOR.format(
            initiator=self.initiator(host), portal=address("path1", self.san.number)))
        host.guest.shell(AWAIT_LUNS.format(wwids=" ".join(map(self.luns.wwid, self.luns.names()))))

    def logins_on(self, host):
        """Targets that come up after it."""
        host.guest.shell(LOGINS)

    def volume_on(self, mdc, description):
        """Labels, and the volume itself; once."""
        mdc.guest.put("/etc/reelfs/volume.toml", description)
        mdc.guest.shell("".join(
            f"reel-label write {name} /dev/mapper/{self.luns.wwid(name)}\n"
            for name in self.luns.names()) + "mkfs.reelfs --config /etc/reelfs/volume.toml\n")

    def serve_on(self, mdc):
        mdc.guest.shell("systemctl enable --now reel-mdcd")

    def mount_on(self, client):
        options = self.cluster.spec.mount_options_of(client.name)
        line = FSTAB.replace(" 0 0", f",{options} 0 0" if options else " 0 0")
        client.guest.shell(f"mkdir -p {MOUNT_POINT}\necho '{line}' >>/etc/fstab\n"
                           f"systemctl daemon-reload\nmount {MOUNT_POINT}\n")

    def admin_files(self):
        """What reeladm is told on the hub, by key."""
        place = os.path.join(self.set, "hosts", self.cluster.mdcs[0].name, "tls")
        return {"tls_ca": os.path.join(place, "ca.crt"),
                "tls_cert": os.path.join(place, "admin.crt"),
                "tls_key": os.path.join(place, "admin.key")}

