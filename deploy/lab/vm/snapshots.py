"""Snapshots of a whole cluster: memory and disks of all machines, to begin from in seconds.

All machines stand still while one is taken, so that none of them is later than another by more than
it takes to tell them, and all of their clocks stand still with them: a lease or a term runs for as
long after as it would have. What was on its way between them is sent again, as after a lost packet.
"""
import re
import time

from process import LabError

NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,39}")


class Snapshots:
    """Their names stand in the cluster's state once they are whole."""

    def __init__(self, cluster):
        self.cluster = cluster

    def names(self):
        return self.cluster.state.get("snapshots", [])

    def forget(self):
        """The disks that held them are gone."""
        self._keep([])

    def take(self, name):
        cluster = self.cluster
        if not NAME.fullmatch(name):
            raise LabError(f"snapshot '{name}': a name is a letter, and letters, digits and -")
        for host in cluster.hosts:
            if host.state() != "running" or cluster.network.cuts(host.name):
                raise LabError(f"{host.name} is cut off, or does not run: a snapshot is of a whole "
                               "cluster (lab heal)")
        self._keep([old for old in self.names() if old != name])
        try:
            cluster.on_all(lambda host: host.machine.suspend())
            cluster.on_all(lambda host: host.machine.take_snapshot(name))
        finally:
            cluster.on_all(lambda host: host.machine.resume())
        self._keep(self.names() + [name])

    def revert(self, name):
        cluster = self.cluster
        if name not in self.names():
            there = ", ".join(self.names()) or "none (lab snapshot makes one)"
            raise LabError(f"{cluster.dir}: no snapshot '{name}'; there are: {there}")
        # All of them first: what one of today still sends, one of then would take for its own.
        cluster.on_all(lambda host: host.cut_power())
        cluster.network.make()
        cluster.network.connect_all()
        try:
            cluster.on_all(lambda host: host.revert(name))
        except LabError:
            cluster.on_all(lambda host: host.cut_power())
            raise
        cluster.on_all(lambda host: host.machine.resume())
        cluster.on_all(self._tell_time)

    @staticmethod
    def _tell_time(host):
        host.guest.shell("true")  # connecting takes an emulated host seconds
        host.guest.shell(f"date -s @{time.time():.3f} >/dev/null")

    def _keep(self, names):
        if names != self.names():
            self.cluster.state["snapshots"] = names
            self.cluster.save()
