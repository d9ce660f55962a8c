"""What drills do to a cluster, by name: each fault strikes, and returns when it has passed.

`active` has the seat, and there is a standby. `tell(what)` notes a moment of the timeline. What a
fault leaves behind (a cut, a host that stands still or does not run) is put right by `heal`, when
the programs have been judged.
"""
import errno
import functools
import os
import time

from drill_look import SYNCED, UNSYNCED_BYTES
from drill_programs import Unsynced, look
from drill_verdict import cut_off_ms
from process import LabError

# A frame of a stream is some requests, one after the other, and each takes two answers or more of
# each LUN (a target asks for 256 KiB at once): several of them have to be under way at a time.
SLOW_MS, SLOW_SEAT_MS = 5, 150
SLOW_SECONDS = 5
ALARM_SECONDS = 10
UNWRITTEN = "drill-unwritten"


# Whoever asks an MDC is a process of its own, which takes CPU from the programs that are judged.
ASK_SECONDS = 0.5


def check(cluster, name):
    """Says at once where that drill has no cluster for it."""
    if cluster.spec.bare:
        raise LabError("a drill needs a volume, and the lab knows of none on machines of --bare")
    if len(cluster.clients) < 2:
        raise LabError("a drill needs two clients")
    if name in NEED_FOUR and len(cluster.clients) < 4:
        raise LabError("this drill needs four clients: it takes the last one from the others")
    if name == "disk-slow":
        cluster.slow(cluster.luns.names()[0], 0)


def active_and_standby(cluster):
    """They may still be coming up after the drill before."""
    if sum(mdc.running() for mdc in cluster.mdcs) < 2:
        raise LabError("a drill needs an active MDC and a standby")
    cluster.await_whole()
    return cluster.await_active()


def _await_other(cluster, old, tell):
    new = cluster.await_active(lambda mdc: mdc is not old, pause=ASK_SECONDS)
    tell(f"{new.name} says that it is active")
    return new


def kill_active(cluster, active, tell):
    tell(f"{active.name}, which is active, is killed")
    active.kill("KILL")
    return _await_other(cluster, active, tell)


def pause_active(cluster, active, tell):
    tell(f"{active.name}, which is active, stands still (SIGSTOP)")
    active.kill("STOP")
    _await_other(cluster, active, tell)


def _cut_active(cluster, active, tell, net):
    tell(f"{active.name}, which is active, is cut off the {net.upper()}")
    cluster.partition(active.name, net)
    _await_other(cluster, active, tell)


def kill_active_and_client(cluster, active, tell):
    """What the client held is free when its lease is over: until then the new one waits for it."""
    client = cluster.clients[-1]
    tell(f"{active.name}, which is active, is killed, and {client.name} with it")
    active.kill("KILL")
    client.kill("KILL")
    _await_other(cluster, active, tell)


def kill_both(cluster, active, tell):
    other = next(mdc for mdc in cluster.mdcs if mdc is not active)
    for mdc in cluster.mdcs:
        if mdc is not active:
            mdc.kill("KILL")
    tell(f"{active.name}, which is active, is killed, and there is no standby any more")
    active.kill("KILL")
    tell(f"{other.name} is started")
    other.start()
    _await_other(cluster, active, tell)


def kill_active_twice(cluster, active, tell):
    second = kill_active(cluster, active, tell)
    tell(f"{active.name} is started again")
    active.start()
    cluster.await_role(active, "standby", pause=ASK_SECONDS)
    time.sleep(SLOW_SECONDS)  # programs at work again
    kill_active(cluster, second, tell)


def cut_san_client(cluster, active, tell):
    """Others append to a file that it appends to, and read one whose bytes it has in memory and
    cannot write any more. It lets go of the first; for the second it has to give its session up.
    """
    client, other = cluster.clients[-1], cluster.clients[0]
    path = os.path.join(other.mount_point, UNWRITTEN)
    with Unsynced(client, os.path.join(client.mount_point, UNWRITTEN)) as file:
        tell(f"{client.name} is cut off the SAN, and not off the LAN")
        cluster.partition(client.name, "san")
        if error := file.step("change"):
            raise LabError(f"{client.name} cannot change what it has in memory: "
                           + os.strerror(error))
        most = cut_off_ms(cluster.spec.session_lease_ms) / 1000 * cluster.patience
        seconds = _seconds_to_read(other, path, most)
        tell(f"{other.name} has read what {client.name} cannot write, after {seconds:.1f} s")
        _await_alarm(cluster, active, f"{client.known_as} was evicted", tell)
        if file.step("sync") != errno.EIO:
            raise LabError(f"{client.name} says that bytes are on the LUNs which are lost")
    look(other, "remove", path)


def _seconds_to_read(client, path, most):
    began = time.monotonic()
    if look(client, "text", path, seconds=most) != SYNCED.decode() * UNSYNCED_BYTES:
        raise LabError(f"{path} is not as it was synced")
    return time.monotonic() - began


def _await_alarm(cluster, mdc, text, tell):
    until = time.monotonic() + ALARM_SECONDS * cluster.patience
    while time.monotonic() < until:
        alarms = [line for line in (mdc.reeladm("show") or {}).get("alarms", []) if text in line]
        if alarms:
            tell(f"an alarm says: {alarms[-1]}")
            return
        time.sleep(ASK_SECONDS)
    raise LabError(f"no alarm says that somebody {text}")


def disk_slow(cluster, _active, tell):
    names = cluster.luns.names()
    for lun, ms in ((names[0], SLOW_SEAT_MS), (names[-1], SLOW_MS)):
        tell(f"each answer of {lun} comes {ms} ms later")
        cluster.slow(lun, ms)
        time.sleep(SLOW_SECONDS)  # a slow LUN, for a while
        tell(f"{lun} is as it was")
        cluster.slow(lun, 0)


def fail(cluster, active, tell):
    tell("reeladm fail")
    new = cluster.hand_over(active)
    tell(f"{active.name} has handed over to {new.name}")


NEED_FOUR = ("kill-active-and-client", "cut-san-client", "rearrange")
FAULTS = {
    "kill-active": kill_active,
    "pause-active": pause_active,
    "cut-lan": functools.partial(_cut_active, net="lan"),
    "cut-san": functools.partial(_cut_active, net="san"),
    "kill-active-and-client": kill_active_and_client,
    "kill-both": kill_both,
    "kill-active-twice": kill_active_twice,
    "cut-san-client": cut_san_client,
    "disk-slow": disk_slow,
    "fail": fail,
}


def heal(cluster):
    """All networks whole, all LUNs quick, all hosts running; and again one active MDC, and
    standbys."""
    for host in cluster.hosts:
        for net in cluster.network.cuts(host.name):
            cluster.partition(host.name, net, heal=True)
    for target in cluster.targets:
        target.delay_none()
    for host in cluster.hosts:
        if host.running():
            host.kill("CONT")
    for mdc in cluster.mdcs:
        # One whose term is over ends when it goes on, or when it finds out.
        cluster.await_role(mdc, "active", "standby", "stopped")
    for host in cluster.hosts:
        host.start()
    cluster.await_whole()
