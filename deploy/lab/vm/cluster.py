"""A cluster of machines: the same verbs, on hosts that boot.

Machines boot, and the first time they are installed, side by side; what each step is stands in
install.py. Everything of the cluster is in its directory, but for the root image (image.py).
"""
import concurrent.futures
import os
import shutil
import subprocess
import sys
import uuid

from cluster import Cluster
from luns import ImageLuns
from process import LabError
from spec import Spec, installed_program
from vm.hosts import MdcMachine, San, Workstation
from vm.image import Image, why_not
from vm.install import Installer, PackageSet
from vm.machine import make_disk
from vm.snapshots import Snapshots
from vm.wires import Wires

SAN_KERNEL = "6.1"


def tell(what):
    print(f"lab: {what}", file=sys.stderr, flush=True)


class MachineLuns(ImageLuns):
    """Images that are the SAN host's disks, and multipath devices on the others."""

    def __init__(self, directory, spec, iqn):
        super().__init__(directory, spec)
        self.iqn = iqn

    def make_image(self, path, size_bytes):
        """A kind that holds snapshots (snapshots.py)."""
        make_disk(path, str(size_bytes), "-o",
                  f"preallocation={'full' if self.spec.allocated else 'off'}")

    def patterns(self):
        return ["/dev/mapper/36001405*"]  # what LIO's identities begin with

    def serial(self, name):
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self.iqn}/{name}"))

    def wwid(self, name):
        """As LIO makes it of a serial number."""
        return "36001405" + self.serial(name).replace("-", "")[:25]


class MachinePki:
    """The certificates of the set that reeladm setup writes."""

    def __init__(self, cluster):
        self.cluster = cluster

    def files(self, _name):
        return self.cluster.installer.admin_files()


def on_all(act, hosts):
    """act(host) for each of them at once; the first error."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(len(hosts), 1)) as pool:
        return list(pool.map(act, hosts))


class MachineCluster(Cluster):
    patience, is_timed = 10, False  # emulated, on processors that they share

    def __init__(self, directory, state):
        self.dir, self.state = directory, state
        self.spec = spec = Spec.from_json(state["spec"])
        self.key_path = os.path.join(directory, "key")
        numbers = state["network"]["numbers"]
        self.network = Wires(state["network"]["id"], numbers, directory, self._pull)
        self.luns = MachineLuns(directory, spec, state["iqn"])
        disks = [self.luns.image(name) for name in self.luns.names()]
        self.targets = self.san = [San("san1", self, numbers["san1"], SAN_KERNEL, disks)]
        kernels = spec.kernels.split(",")
        self.mdcs = [MdcMachine(name, self, numbers[name], kernels[0], where)
                     for name, where in state["mdcs"].items()]
        self.clients = [Workstation(f"ws{i}", self, numbers[f"ws{i}"],
                                    kernels[(i - 1) % len(kernels)])
                        for i in range(1, spec.clients + 1)]
        self.hosts = self.targets + self.mdcs + self.clients
        self.packages, self.installer = PackageSet(directory, spec), Installer(self)
        self.pki, self.snapshots = MachinePki(self), Snapshots(self)
        self.take_snapshot, self.revert = self.snapshots.take, self.snapshots.revert
        self._image = None

    @property
    def image(self):
        if self._image is None:
            self._image = Image(self.packages.libraries())
        return self._image

    def public_key(self):
        with open(self.key_path + ".pub") as file:
            return file.read()

    def _pull(self, host, cable, pulled):
        self.host(host).machine.pull(cable, pulled)

    def machine(self, name):
        return self.host(name)

    def on_all(self, act):
        return on_all(act, self.hosts)

    def command_on(self, host, words, terminal=False):
        if host == "hub":
            return self.network.inside(host) + words
        return self.host(host).guest.command(words, terminal)

    def up(self):
        if problem := why_not():
            raise LabError(f"--backend vm: {problem}")
        self.packages.make(tell)
        self.image.make(tell)
        self.network.make()
        if not os.path.exists(self.key_path):
            self._make_key()
        if self.state["formatted"]:
            self._switch_on()
            on_all(lambda host: host.await_ready(), self.hosts)
            return
        self.snapshots.forget()
        self._begin_anew()
        self._install()
        self.state["formatted"] = True  # or, of bare ones, all that is there to be made
        self.save()

    def _make_key(self):
        done = subprocess.run([installed_program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "",
                               "-f", self.key_path], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True)
        if done.returncode != 0:
            raise LabError(f"ssh-keygen: {done.stderr.strip()}")

    def _begin_anew(self):
        """What an interrupted attempt left is taken away."""
        for host in self.hosts:
            host.machine.switch_off()
            host.guest.hang_up()
        shutil.rmtree(os.path.join(self.dir, "hosts"), ignore_errors=True)
        self.luns.make_images()  # labelled on a controller's host

    def _switch_on(self):
        tell("switching the machines on")
        for host in self.hosts:
            host.switch_on()

    def _install(self):
        install, others = self.installer, self.mdcs + self.clients
        self._switch_on()
        if not self.spec.bare:
            install.write_set()

        def prepare(host):
            host.machine.await_up()
            install.names_on(host)
            if host in self.targets:
                install.san_up()
            elif not self.spec.bare:
                install.packages_on(host)
        on_all(prepare, self.hosts)
        tell("logging in to the SAN")
        on_all(install.initiator_on, others)
        if self.spec.bare:
            return
        tell("making the volume")
        on_all(install.logins_on, others)
        install.volume_on(self.mdcs[0], self.volume_toml())
        on_all(install.serve_on, self.mdcs)
        on_all(install.mount_on, self.clients)

    def replace(self, host):
        """Another machine takes the place of one that is gone for good, with nothing on its disk;
        to the SAN it is the same host."""
        if not self.spec.bare or host in self.targets:
            raise LabError(f"{host.name}: only a controller or a workstation of lab up --bare is "
                           "replaced; others are installed by the lab, once")
        host.machine.switch_off()
        host.guest.hang_up()
        self.snapshots.forget()
        shutil.rmtree(host.dir)
        host.start()
        self.installer.names_on(host)
        self.installer.initiator_on(host)

    def fsck(self):
        """Stops mounts and controllers, checks the volume from a controller's host, and starts
        them again."""
        on_all(lambda client: client.guest.shell(f"systemctl stop {client.unit}"), self.clients)
        on_all(lambda mdc: mdc.guest.shell(f"systemctl stop {mdc.unit}"), self.mdcs)
        done = self.mdcs[0].guest.try_shell(f"fsck.reelfs {self.spec.volume} --json")
        on_all(lambda mdc: mdc.guest.shell(f"systemctl start {mdc.unit}"), self.mdcs)
        on_all(lambda client: client.guest.shell(f"systemctl start {client.unit}"), self.clients)
        return done

    def stop(self, keep=()):
        """Orderly, clients first. Names those that did not go so."""
        unclean = []
        for hosts in (self.clients, self.mdcs, self.targets):
            hosts = [host for host in hosts if host not in keep]
            unclean += [host.name for host, clean in
                        zip(hosts, on_all(lambda host: host.stop(), hosts)) if not clean]
        return unclean

    def restart(self):
        unclean = self.stop()
        self.up()
        if unclean:
            raise LabError("everything runs again, but was not shut down in order: "
                           + " ".join(unclean))

    def down(self):
        """Nothing of it is kept, so that all machines lose their power."""
        for host in self.hosts:
            host.machine.switch_off()
            host.guest.hang_up()
        self.luns.remove()
        self.network.remove()
        for name in ("hosts", "set", "packages", "packages.new"):
            shutil.rmtree(os.path.join(self.dir, name), ignore_errors=True)
        for name in ("key", "key.pub", "pulled.json", "lab.json.new", "lab.json"):
            if os.path.exists(os.path.join(self.dir, name)):
                os.unlink(os.path.join(self.dir, name))
        if self.state["made_dir"] and not os.listdir(self.dir):
            os.rmdir(self.dir)
