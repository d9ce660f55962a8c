"""A cluster: its LUNs, its volume and its hosts, under one directory.

DIR/lab.json says what it consists of and is written before anything else is made, so that `down`
finds everything, whenever `up` was interrupted. What runs is asked from the hosts, never stored.
"""
import concurrent.futures
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import time

from hosts import Client, Mdc, mounted
from luns import ImageLuns, IscsiLuns, run_program
from network import HUB, Network, NoNetwork
from pki import Pki
from places import places_of
from process import LabError
from spec import Spec
from target import Portal, Target

STATE_VERSION = 1
TAKEOVER_SECONDS = 30


def cluster_of(directory, state):
    """By its back end."""
    if state["spec"].get("backend") == "vm":
        from vm.cluster import MachineCluster  # which is a Cluster itself
        return MachineCluster(directory, state)
    return Cluster(directory, state)


class Cluster:
    """`patience`: how many times longer its hosts may take for anything than processes of this
    machine. `is_timed`: whether what they take says anything of real ones."""
    patience, is_timed = 1, True

    def __init__(self, directory, state):
        self.dir, self.state = directory, state
        self.spec = Spec.from_json(state["spec"])
        self.network = Network(**state["network"]) if "network" in state else NoNetwork()
        self.webs = state.get("webs", {})
        self.targets = [Target(name, self, **place)
                        for name, place in state.get("targets", {}).items()]
        self.portals = [Portal(name, self, address)
                        for name, address in state.get("portals", {}).items()]
        self.san = self.targets + self.portals
        self.luns = (IscsiLuns(directory, self.spec, self.targets[0]) if self.targets else
                     ImageLuns(directory, self.spec))
        self.pki = Pki(directory, self.spec)
        self.mdcs = [Mdc(name, self, address) for name, address in state["mdcs"].items()]
        self.clients = [Client(f"ws{i}", self) for i in range(1, self.spec.clients + 1)]
        self.hosts = self.san + self.mdcs + self.clients

    @staticmethod
    def exists(directory):
        return os.path.exists(os.path.join(directory, "lab.json"))

    @staticmethod
    def open(directory):
        try:
            with open(os.path.join(directory, "lab.json")) as file:
                state = json.load(file)
        except FileNotFoundError:
            raise LabError(f"{directory}: no cluster there (make one: lab up --dir {directory})")
        except ValueError as error:
            raise LabError(f"{directory}/lab.json: damaged ({error})")
        if state.get("version") != STATE_VERSION:
            raise LabError(f"{directory}: made by another version of lab; take it down with that")
        return cluster_of(directory, state)

    @staticmethod
    def open_or_make(directory, read_spec):
        """`read_spec(old)` says what is wanted, on top of the existing cluster's spec."""
        if Cluster.exists(directory):
            cluster = Cluster.open(directory)
            wanted = read_spec(cluster.spec).to_json()
            have = cluster.spec.to_json()
            differ = [key for key in have if key != "bin" and have[key] != wanted[key]]
            if differ:
                raise LabError(f"{directory} holds a cluster with other {', '.join(differ)}; "
                               f"take it down first (lab down --dir {directory})")
            if wanted["bin"] != have["bin"]:  # newly built programs are no other cluster
                cluster.state["spec"] = wanted
                cluster.save()
            return cluster_of(directory, cluster.state)
        if set(directory) & set(',*?["\\\n'):
            raise LabError(f"{directory}: a path without any of  , * ? [ \" \\  is needed")
        made_dir = not os.path.isdir(directory)
        if not made_dir and os.listdir(directory):
            raise LabError(f"{directory}: is not empty, and no cluster of lab's")
        spec = read_spec(None)
        state = {"version": STATE_VERSION, "made_dir": made_dir, "formatted": False,
                 "spec": spec.to_json(), **places_of(spec)}
        os.makedirs(directory, exist_ok=True)
        cluster = cluster_of(directory, state)
        cluster.save()
        return cluster

    def save(self):
        path = os.path.join(self.dir, "lab.json")
        with open(path + ".new", "w") as file:
            json.dump(self.state, file, indent=2)
        os.replace(path + ".new", path)

    @contextlib.contextmanager
    def locked(self):
        """One changing command at a time; the lock goes with the process."""
        fd = os.open(self.dir, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise LabError(f"{self.dir}: another lab command is at work there")
        try:
            yield
        finally:
            os.close(fd)

    def host(self, name):
        for host in self.hosts:
            if host.name == name:
                return host
        raise LabError(f"no host {name}; there are: {' '.join(host.name for host in self.hosts)}")

    def machine(self, name):
        raise LabError(f"{self.host(name).name} is no machine; make the cluster by lab up "
                       "--backend vm")

    def take_snapshot(self, _name):
        raise LabError("only machines have snapshots; make the cluster by lab up --backend vm")

    revert = take_snapshot

    def mdc_addresses(self):
        return [mdc.address for mdc in self.mdcs]

    def reeladm(self, mdcs, answer_ms, *words):
        """`reeladm --json WORDS` of these MDCs, as it ended; of all, it finds the active one."""
        tls = [part for key, path in self.pki.files("admin").items()
               for part in ("--" + key.replace("_", "-"), path)]
        return subprocess.run(
            self.network.inside(HUB) +
            [self.spec.program("reeladm"), "--config", mdcs[0].own_config("reeladm.toml"),
             "--mdc", ",".join(mdc.address for mdc in mdcs), "--json", *tls,
             "--volume", self.spec.volume, "--timeout-ms", str(answer_ms), *words],
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            env={name: value for name, value in os.environ.items()
                 if not name.startswith("REELADM_")})

    def up(self):
        self.network.make()
        if not self.state["formatted"]:
            self.luns.make()
            self._format()
            if self.spec.tls:
                self.pki.make(self.mdcs, self.clients)
            self.state["formatted"] = True
            self.save()
        for host in self.hosts:
            host.start()

    def _format(self):
        path = os.path.join(self.dir, "volume.toml")
        with open(path, "w") as config:
            config.write(self.volume_toml())
        none = ["--no-small-files"] if self.spec.small_file_bytes == 0 else []
        run_program([self.spec.program("mkfs.reelfs"), "--config", path, *none],
                    self.network.inside(HUB))

    def volume_toml(self):
        """What mkfs.reelfs makes the volume from."""
        spec = self.spec
        text = (f'name = "{spec.volume}"\nblock_size = "{spec.block_size}"\n'
                f'stripe_breadth = "{spec.breadth}"\nstrategy = "{spec.strategy}"\n'
                f'luns = {json.dumps(self.luns.patterns())}\n')
        for pool in spec.pools:
            # JSON's lists of plain strings are TOML's too.
            text += (f'\n[[pool]]\nname = "{pool.name}"\nflags = {json.dumps(pool.flags)}\n'
                     f"luns = {json.dumps(pool.lun_names())}\n")
            if pool.affinities:
                text += f"affinities = {json.dumps(pool.affinities)}\n"
            if pool.stripe_breadth:
                text += f'stripe_breadth = "{pool.stripe_breadth}"\n'
        return text

    def command_on(self, host, words, _terminal=False):
        """What runs `words` on a host, or on the hub."""
        if host != HUB:
            self.host(host)
        return self.network.inside(host) + words

    def stop(self, keep=()):
        """Clients first, so that their last changes find an MDC. Names those that did not go
        cleanly."""
        # Standbys before the active one, so that none of them takes over what is to stop as well.
        mdcs = sorted(self.mdcs, key=lambda mdc: len(self.mdcs) > 1 and mdc.role() == "active")
        return [host.name for host in self.clients + mdcs + self.san[::-1]
                if host not in keep and not host.stop()]

    def partition(self, name, net, heal=False):
        self.network.cut(self.host(name).name, net, heal)

    def slow(self, lun, ms):
        if not self.targets:
            raise LabError("LUNs can be slowed with --lun-backend iscsi --lun-delays")
        self.targets[0].delay(lun, ms)

    def active(self):
        """The MDC that serves the volume, or None."""
        # One that is cut off would keep us waiting.
        pool = concurrent.futures.ThreadPoolExecutor(max_workers=len(self.mdcs))
        asked = {pool.submit(mdc.role): mdc for mdc in self.mdcs}
        pool.shutdown(wait=False)
        for answered in concurrent.futures.as_completed(asked):
            if answered.result() == "active":
                return asked[answered]
        return None

    def fail(self):
        """A controlled handover: the active MDC gives the volume to a standby. Who had it, who has
        it."""
        old = self.active()
        if old is None:
            raise LabError("no MDC is active")
        if not any(mdc.role() == "standby" for mdc in self.mdcs):
            raise LabError(f"{old.name} is active, and there is no standby")
        return old, self.hand_over(old)

    def hand_over(self, old):
        """From the active MDC to the one that is active then."""
        if old.reeladm("fail") is None:
            raise LabError(f"{old.name}: reeladm fail did not succeed (its log: {old.log_path})")
        return self.await_active(lambda mdc: mdc is not old)

    def _await(self, condition, problem, pause=0.05):
        seconds = TAKEOVER_SECONDS * self.patience
        until = time.monotonic() + seconds
        while not (found := condition()):
            if time.monotonic() > until:
                raise LabError(f"{problem} within {seconds} s")
            time.sleep(pause)  # there is nothing to wait on: an MDC tells only who asks
        return found

    def await_active(self, wanted=lambda _mdc: True, pause=0.05):
        """The MDC that is active, once there is one that is `wanted`."""
        def found():
            active = self.active()
            return active if active is not None and wanted(active) else None
        return self._await(found, "no MDC became active", pause)

    def await_role(self, mdc, *roles, pause=0.05):
        self._await(lambda: mdc.role() in roles, f"{mdc.name} did not become {' or '.join(roles)}",
                    pause)

    def await_whole(self):
        """One MDC is active, and all others stand by."""
        self._await(lambda: sorted(mdc.role() for mdc in self.mdcs) ==
                    ["active"] + ["standby"] * (len(self.mdcs) - 1),
                    "there was not one active MDC, and standbys beside it,")

    def fsck(self):
        """Stops everything cleanly, checks the volume on the bare LUNs and starts again. What fsck
        said, with its exit status."""
        for host in self.san:
            host.start()
        self.stop(keep=self.san)
        config = os.path.join(self.mdcs[0].dir, "mdc.toml")  # it names the LUNs
        done = subprocess.run(
            self.network.inside(HUB) + [self.spec.program("fsck.reelfs"), self.spec.volume,
                                        "--config", config, "--json"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.up()
        return done

    def restart(self):
        for host in self.san + self.mdcs:  # without them the clients' last changes were lost
            host.start()
        unclean = self.stop()
        for host in self.hosts:
            host.start()
        if unclean:
            raise LabError(f"everything runs again, but not stopped cleanly: {' '.join(unclean)} "
                           "(a busy mount, or a daemon that had to be killed)")

    def down(self):
        if not all(host.running() for host in self.san + self.mdcs):
            for client in self.clients:  # they would wait for it, and all is removed anyway
                client.process.kill()
        self.stop()
        for client in self.clients:
            if mounted(client.mount_point):  # never remove a tree that may be someone's data
                raise LabError(f"{client.mount_point}: still mounted; nothing was removed")
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(client.mount_point)
        self.luns.remove()
        self.network.remove()
        self.pki.remove()
        shutil.rmtree(os.path.join(self.dir, "hosts"), ignore_errors=True)
        for name in ("volume.toml", "exports.toml", "lab.json.new", "lab.json"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.dir, name))
        if self.state["made_dir"] and not os.listdir(self.dir):
            os.rmdir(self.dir)
