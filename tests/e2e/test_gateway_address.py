"""The address of two Samba gateways, kept by keepalived with deploy/samba/keepalived.conf: it is
where the volume is served, and moves when it is not."""
import os
import subprocess

import pytest

from cluster import until
from gateway import Daemon, configured
from smb_gateway import SambaGateway

CLUSTER = {"backend": "netns", "clients": 2, "mdcs": 1}
ADDRESS = "10.77.0.70"
HOSTS = ("ws1", "ws2")


class Keeper(Daemon):
    """keepalived on a host, which looks at the host's mount and smbd."""

    def __init__(self, cluster, host, smb):
        super().__init__(os.path.join(cluster.scratch, f"keeper-{host}"),
                         cluster.lab_command("exec") + ["--host", host, "--"])
        conf = os.path.join(self.directory, "keepalived.conf")
        serves = (f"/usr/bin/findmnt --types fuse.reelfs {os.path.dirname(smb.path)} && "
                  f"/usr/bin/pgrep --pidfile {smb.directory}/pid/smbd.pid")
        with open(conf, "w", encoding="utf-8") as file:
            file.write(configured("samba/keepalived.conf", {
                'script "/usr/bin/sh -c \'/usr/bin/findmnt --types fuse.reelfs /mnt/reel && '
                '/usr/bin/pgrep --exact smbd\'"': f'script "/usr/bin/sh -c \'{serves}\'"',
                "interface eth0": "interface lan",
                "192.168.1.70/24": f"{ADDRESS}/24",
            }))
        self.start("keepalived", "--dont-fork", "--vrrp", "--log-console", "--use-file", conf,
                 "--pid", f"{self.directory}/pid", "--vrrp_pid", f"{self.directory}/vrrp.pid")

    def has_address(self):
        said = subprocess.run([*self.inside, "ip", "-o", "address", "show", "dev", "lan"],
                              check=True, capture_output=True, text=True).stdout
        return f" {ADDRESS}/" in said


@pytest.fixture
def hosts(cluster, room):
    """Gateway and keeper of each host."""
    os.chmod(room[0], 0o777)
    made = {}
    try:
        for host, path in zip(HOSTS, room):
            smb = SambaGateway(os.path.join(cluster.scratch, f"smb-{host}"), path,
                               inside=cluster.lab_command("exec") + ["--host", host, "--"])
            made[host] = (smb, Keeper(cluster, host, smb))
        yield made
    finally:
        for pair in made.values():
            for daemon in reversed(pair):
                daemon.end()


def only_holder(hosts):
    holders = [host for host, (_, keeper) in hosts.items() if keeper.has_address()]
    return holders[0] if len(holders) == 1 else None


def through_the_address(smb, commands, hub):
    """Asked again where the address moves once more before both keepers agree."""
    def done():
        try:
            smb.does(commands, ADDRESS, hub)
        except AssertionError:
            return False
        return True

    until(done)


def test_the_address_is_where_the_volume_is_served(cluster, room, hosts):
    until(lambda: only_holder(hosts))
    first = only_holder(hosts)
    (second,) = set(HOSTS) - {first}
    source = os.path.join(cluster.scratch, "source")
    with open(source, "w", encoding="utf-8") as file:
        file.write("text")
    hub = cluster.lab_command("exec") + ["--"]
    through_the_address(hosts[first][0], f"put {source} by-{first}", hub)

    hosts[first][0].end()  # its smbd alone
    until(lambda: only_holder(hosts) == second)
    through_the_address(hosts[second][0], f"put {source} by-{second}", hub)

    hosts[first][0].start()
    cluster.lab("partition", second, "lan")  # as a host that is gone
    until(lambda: hosts[first][1].has_address())
    through_the_address(hosts[first][0], f"get by-{second} {source}.read", hub)
    cluster.lab("partition", second, "lan", "--heal")
    until(lambda: only_holder(hosts))
    assert sorted(os.listdir(room[0])) == sorted(f"by-{host}" for host in HOSTS)
