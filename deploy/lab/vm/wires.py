"""Networks of a cluster of machines: bridges in one network namespace, and a tap for each cable.

A host has four: the metadata LAN, two paths to the SAN, and one to be administered by (as a server
has a board management controller), which is never cut. The namespace is the hub: it has an address
on each of them, and whoever administers the cluster works there.

Which cables are pulled is kept in a file, since one stays pulled while its host is off; the machine
sees a link without a carrier (machine.py).
"""
import json
import os

from network import HUB, RUN, Network, ip_command
from process import LabError

NETS = {"admin": "10.76.0", "lan": "10.77.0", "path1": "10.78.1", "path2": "10.78.2"}
# Where the network cards stand on a machine's bus: their names are by these (image.py).
SLOTS = {net: 0x10 + number for number, net in enumerate(NETS)}
# What a person cuts, and the cables that are pulled then.
CABLES = {"lan": ("lan",), "san": ("path1", "path2"), "path1": ("path1",), "path2": ("path2",)}
SETUP_PORT = 7440  # where a controller listens unless told otherwise


def address(net, number):
    return f"{NETS[net]}.{number}"


def mac(net, number):
    """Locally administered, and the same whenever the host is switched on."""
    return f"52:4c:00:00:{list(NETS).index(net):02x}:{number:02x}"


class Wires(Network):
    """`numbers`: the last part of each host's addresses. `directory`: where it is kept what is
    cut; `pull(host, cable, pulled)` tells a machine that runs."""

    def __init__(self, id, numbers, directory, pull):
        super().__init__(id, numbers)
        self.pull, self.path = pull, os.path.join(directory, "pulled.json")

    def inside(self, _host):
        """Each command runs on the hub: what is to run on a host is told to it (guest.py)."""
        return ["nsenter", f"--net={RUN}/{self._name(HUB)}"]

    def make(self):
        """Whole, or what of it is missing."""
        hub = self._name(HUB)
        self._namespace(HUB)
        links = ip_command("-n", hub, "-o", "link", "show")
        ip_command("-n", hub, lines=["link set lo up"] + [
            line for net, prefix in NETS.items() if f" {net}:" not in links
            for line in (f"link add name {net} type bridge", f"address add {prefix}.1/24 dev {net}",
                         f"link set {net} up")])
        taps = [(host, net) for host in self.numbers for net in NETS]
        ip_command("-n", hub, lines=[
            line for host, net in taps if f" {host}.{net}:" not in links
            for line in (f"tuntap add dev {host}.{net} mode tap",
                         f"link set {host}.{net} master {net} up")])

    def _keep(self, everybody):
        with open(self.path + ".new", "w") as file:
            json.dump(everybody, file)
        os.replace(self.path + ".new", self.path)

    def _pulled_of_all(self):
        try:
            with open(self.path) as file:
                return json.load(file)
        except FileNotFoundError:
            return {}

    def pulled(self, host):
        """The cables of `host` that are pulled."""
        return self._pulled_of_all().get(host, [])

    def cuts(self, host):
        """In the words of lab partition: a path alone, or the whole SAN."""
        pulled = self.pulled(host)
        if set(CABLES["san"]) <= set(pulled):
            pulled = [net for net in pulled if net not in CABLES["san"]] + ["san"]
        return sorted(pulled)

    def connect_all(self):
        """While no machine runs."""
        self._keep({})

    def cut(self, host, net, heal=False):
        if host not in self.numbers:
            raise LabError(f"no host {host}")
        everybody = self._pulled_of_all()
        pulled, cables = set(everybody.get(host, [])), set(CABLES[net])
        everybody[host] = sorted(pulled - cables if heal else pulled | cables)
        self._keep(everybody)
        for cable in CABLES[net]:
            self.pull(host, cable, not heal)
