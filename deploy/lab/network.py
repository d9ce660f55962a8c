"""Networks of a cluster with --backend netns: each host in a network namespace of its own.

The hub is one more namespace. It has two bridges, the metadata LAN and the SAN, and is on both of
them itself: whoever administers the cluster works there. A cable is a pair of veth devices; the end
at the hub is called HOST.lan or HOST.san, the other one, in the host's namespace, lan or san. A cut
takes the hub's end down: the host sees a link without a carrier, and nobody is told anything.

Nothing of this is in the machine's own network, and all of it goes with the namespaces. Their names
hold the cluster's id, so that whatever an interrupted `up` has made is found again.
"""
import os
import shutil
import signal
import subprocess
import time

from process import LabError

NETS = {"lan": "10.77.0", "san": "10.78.0"}
MDC_PORT, ISCSI_PORT = 7400, 3260
HUB = "hub"
RUN = "/run/netns"
GONE_SECONDS = 10
HEALED_SECONDS = 10


def ip_command(*words, lines=None):
    command = ["ip", *words] + (["-batch", "-"] if lines is not None else [])
    done = subprocess.run(command, input="".join(line + "\n" for line in lines or ()), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise LabError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def _is_up(namespace, device):
    return "state UP" in ip_command("-n", namespace, "link", "show", device)


def why_not():
    """Why this machine cannot have network namespaces, or None."""
    for program, package in (("ip", "iproute2"), ("nsenter", "util-linux")):
        if shutil.which(program) is None:
            return f"no {program} here; install Debian's package {package}"
    if os.getuid() != 0:
        return "network namespaces take root"
    probe = f"reel-probe-{os.getpid()}"
    try:
        ip_command("netns", "add", probe)
        try:
            ip_command("-n", probe, lines=["link add name probe type bridge",
                                           "link add name one type veth peer name other"])
        finally:
            ip_command("netns", "delete", probe)
    except LabError as error:
        return f"this machine lets nobody make network namespaces ({error})"
    return None


def addresses(number):
    """Where host `number` of a cluster is, by net."""
    return {net: f"{prefix}.{number}" for net, prefix in NETS.items()}


class NoNetwork:
    """All hosts are on this machine's loopback."""

    def inside(self, _host):
        return []

    def make(self):
        pass

    def remove(self):
        pass

    def cuts(self, _host):
        return []

    def cut(self, host, net, heal=False):
        raise LabError("all hosts are on one loopback device, which cannot be cut; "
                       "make the cluster by lab up --backend netns")


class Network(NoNetwork):
    """`numbers`: the last part of each host's addresses."""

    def __init__(self, id, numbers):
        self.id, self.numbers = id, numbers

    def _name(self, host):
        return f"reel-{self.id}-{host}"

    def inside(self, host):
        """What a command begins with that is to run on `host`. Its mounts remain everybody's."""
        return ["nsenter", f"--net={RUN}/{self._name(host)}"]

    def make(self):
        """Whole, or what of it is missing; a cut stays."""
        hub = self._name(HUB)
        self._namespace(HUB)
        links = ip_command("-n", hub, "-o", "link", "show")
        ip_command("-n", hub, lines=["link set lo up"] + [
            f"link add name {net} type bridge" for net in NETS if f" {net}:" not in links] + [
            line for net, prefix in NETS.items()
            for line in (f"address replace {prefix}.1/24 dev {net}", f"link set {net} up")])
        for host, number in self.numbers.items():
            self._namespace(host)
            ip_command("-n", hub, lines=["link set lo up"] + [
                line for net in NETS if f" {host}.{net}@" not in links for line in (
                    f"link add name {host}.{net} type veth peer name {net} netns "
                    f"{self._name(host)}", f"link set {host}.{net} master {net} up")])
            ip_command("-n", self._name(host), lines=["link set lo up"] + [
                line for net, address in addresses(number).items()
                for line in (f"address replace {address}/24 dev {net}", f"link set {net} up")])

    def _namespace(self, host):
        if not os.path.exists(f"{RUN}/{self._name(host)}"):
            ip_command("netns", "add", self._name(host))

    def remove(self):
        """With every process that is still inside: nobody else's can be."""
        names = [name for name in (os.listdir(RUN) if os.path.isdir(RUN) else ())
                 if name.startswith(self._name(""))]
        until = time.monotonic() + GONE_SECONDS
        for name in names:
            while pids := ip_command("netns", "pids", name).split():
                for pid in pids:
                    try:
                        os.kill(int(pid), signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                if time.monotonic() > until:
                    raise LabError(f"namespace {name}: pid {' '.join(pids)} does not end")
                time.sleep(0.02)  # a namespace tells nobody when it is empty
        for name in names:
            ip_command("netns", "delete", name)

    def cuts(self, host):
        """The nets that `host` is cut off from."""
        if host not in self.numbers or not os.path.exists(f"{RUN}/{self._name(HUB)}"):
            return []
        return [net for net in NETS if "state DOWN" in
                ip_command("-n", self._name(HUB), "link", "show", f"{host}.{net}")]

    def cut(self, host, net, heal=False):
        hub, port = self._name(HUB), f"{host}.{net}"
        ip_command("-n", hub, "link", "set", port, "up" if heal else "down")
        until = time.monotonic() + HEALED_SECONDS
        while heal and not (_is_up(hub, port) and _is_up(self._name(host), net)):
            if time.monotonic() > until:
                raise LabError(f"{host}: its link to the {net} does not come up")
            time.sleep(0.02)  # the kernel notices a carrier some time later, up to a second
        if heal:
            self._ask_anew(net)

    def _ask_anew(self, net):
        """Who had asked in vain for a host's address would ask again a second later."""
        for name in os.listdir(RUN):
            if name.startswith(self._name("")) and name != self._name(HUB):
                ip_command("-n", name, "neigh", "flush", "dev", net)
