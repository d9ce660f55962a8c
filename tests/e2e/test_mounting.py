"""How a volume is mounted, and mounted again, by people and by the tools that they use."""
import concurrent.futures
import fcntl
import glob
import os
import signal
import subprocess

import pytest

from cluster import BIN, run, until
from fuse_way import offers_uring

PROGRAM = os.path.join(BIN, "mount.reelfs")
# So long a controller waits for the lease of a host that is gone.
CLUSTER = {"session_lease_ms": 20_000}


def options_of(directory):
    """What the table of mounts shows, of this mount and of its file system."""
    with open("/proc/self/mountinfo") as table:
        fields = [line.split() for line in table]
    lines = [line for line in fields if line[4] == directory]
    assert len(lines) == 1, lines
    return set(lines[0][5].split(",")), set(lines[0][-1].split(","))


class Mounts:
    def __init__(self, cluster):
        self.where = f"mdc={cluster.hosts()['mdc1']['where']},luns={cluster.luns()}," \
                     f"config={cluster.own_config()}"
        self.scratch = cluster.scratch
        self.made = []

    def mount(self, options="rw", directory=None):
        directory = directory or os.path.join(self.scratch, f"by-hand-{len(self.made)}")
        os.makedirs(directory, exist_ok=True)
        run(PROGRAM, "reel", directory, "-o", f"{self.where},log={directory}.log,{options}")
        self.made.append(directory)
        return directory

    def refused(self, directory, options):
        done = subprocess.run([PROGRAM, "reel", directory, "-o", options], capture_output=True,
                              text=True, timeout=60)
        assert done.returncode == 32, done
        return done.stderr

    def remount(self, directory, options):
        run(PROGRAM, "reel", directory, "-o", f"remount,{options}", timeout=60)


@pytest.fixture
def mounts(cluster):
    made = Mounts(cluster)
    try:
        yield made
    finally:
        for directory in made.made:
            run("umount", directory, timeout=60)


def test_options_of_mount_8(mounts):
    directory = mounts.mount("nodiratime,nosymfollow,nosuid,lazytime,silent,acl")
    shown, _ = options_of(directory)
    assert {"nodiratime", "nosymfollow", "nosuid", "relatime"} <= shown
    os.symlink("nowhere", f"{directory}/link")
    with pytest.raises(OSError):
        os.stat(f"{directory}/link", follow_symlinks=True)
    os.unlink(f"{directory}/link")
    shown, _ = options_of(mounts.mount("strictatime"))
    assert not shown & {"relatime", "noatime"}


def test_remount(cluster, room, mounts):
    directory = mounts.mount("nosuid")
    mine = os.path.join(directory, os.path.basename(room[0]))
    mounts.remount(directory, "ro")
    shown, of_all = options_of(directory)
    assert {"ro", "nosuid"} <= shown and "ro" in of_all
    with pytest.raises(OSError, match="Read-only"):
        open(f"{mine}/file", "w")
    mounts.remount(directory, f"rw,noexec,suid,{mounts.where}")  # as from a line of fstab(5)
    shown, of_all = options_of(directory)
    assert {"rw", "noexec"} <= shown and "nosuid" not in shown and "rw" in of_all
    with open(f"{mine}/file", "w") as file:
        file.write("text")
        assert "busy" in mounts.refused(directory, "remount,ro")
    assert open(f"{room[1]}/file").read() == "text"
    assert "cannot change cache" in mounts.refused(directory, "remount,ro,cache=page")
    assert "rw" in options_of(directory)[0], "nothing has changed"


def test_remount_with_other_access_times_and_a_bound_on_waits(cluster, room, mounts):
    directory = mounts.mount("noatime")
    path = os.path.join(directory, os.path.basename(room[0]), "file")
    with open(path, "w") as file:
        file.write("text")
        os.fsync(file.fileno())

    def moves():
        before = os.stat(path).st_atime_ns
        with open(path) as file:
            file.read()
        return os.stat(path).st_atime_ns > before

    mounts.remount(directory, "relatime")
    assert moves() and not moves()
    mounts.remount(directory, "strictatime,timeout=500,flush_on_close")
    assert not options_of(directory)[0] & {"relatime", "noatime"}
    assert moves() and moves()
    cluster.kill("mdc1")
    try:
        with pytest.raises(TimeoutError):
            os.mkdir(f"{os.path.dirname(path)}/nobody-answers")
    finally:
        cluster.start("mdc1")
    mounts.remount(directory, "relatime,hard,noflush_on_close,readahead=1M,writebehind=0")
    assert "cannot change threads" in mounts.refused(directory, "remount,threads=9")


def test_remount_for_writing_of_what_was_mounted_for_reading(room, mounts):
    directory = mounts.mount("ro")
    mounts.remount(directory, "rw")
    with open(os.path.join(directory, os.path.basename(room[0]), "file"), "w") as file:
        file.write("text")
        os.fsync(file.fileno())
    assert open(f"{room[1]}/file").read() == "text"


def test_one_volume_on_one_directory(cluster, mounts):
    directory = mounts.mount()
    assert "already mounted" in mounts.refused(directory, mounts.where)
    assert len(options_of(directory)) == 2
    path = os.path.join(cluster.scratch, "a-file")
    with open(path, "w"):
        pass
    assert "Not a directory" in mounts.refused(path, mounts.where)
    assert "no ReelFS volume" in mounts.refused(cluster.scratch, "remount,ro")


def client_of(directory):
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/cmdline", encoding="utf-8") as file:
                words = file.read().split("\0")
        except OSError:
            continue
        if words[0].endswith("mount.reelfs") and directory in words:
            found.append(int(process))
    assert len(found) == 1, found
    return found[0]


def test_a_clients_log_can_be_rotated(cluster, mounts):
    directory = mounts.mount()
    log = f"{directory}.log"
    os.rename(log, f"{log}.1")
    os.kill(client_of(directory), signal.SIGHUP)
    run("timeout", "60", "sh", "-c", f"until grep -q 'begins anew' {log}; do :; done")
    os.statvfs(directory)
    assert os.path.ismount(directory)


class Starting:
    """A `mount.reelfs` by hand, in a process group of its own, as a shell starts it."""

    def __init__(self, mounts, options):
        self.directory = os.path.join(mounts.scratch, f"starting-{options}")
        os.makedirs(self.directory, exist_ok=True)
        self.process = subprocess.Popen(
            [PROGRAM, "reel", self.directory, "-o", f"{mounts.where},log=/dev/null,{options}"],
            stderr=subprocess.PIPE, text=True, start_new_session=True)

    def line(self):
        return self.process.stderr.readline()

    def signal(self, number):
        """To all that the shell started, as Ctrl-C does."""
        os.killpg(self.process.pid, number)

    def looks_at_its_directory(self):
        assert self.process.poll() is None, self.ends()
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as children:
            open_files = [glob.glob(f"/proc/{pid}/fd/*") for pid in children.read().split()]
        return any(os.path.realpath(fd) == self.directory for fds in open_files for fd in fds)

    def ends(self):
        """When all that can write to the terminal is gone, the client too."""
        return self.process.communicate(timeout=60)[1]


@pytest.fixture
def no_controller(cluster):
    cluster.kill("mdc1")
    yield
    if cluster.hosts()["mdc1"]["state"] != "running":
        cluster.start("mdc1")


def test_a_mount_by_hand_waits_for_a_controller(cluster, mounts, no_controller):
    mount = Starting(mounts, "retry=3")
    assert "waiting for a controller for 3 min: no controller serves" in mount.line()
    cluster.start("mdc1")
    assert mount.ends() == "" and mount.process.returncode == 0
    assert os.path.ismount(mount.directory)
    mounts.made.append(mount.directory)


def test_a_mount_waits_for_a_controller_that_went_away_meanwhile(cluster, mounts, no_controller):
    """While it waits for a host that is gone a controller takes sessions, and answers nothing."""
    cluster.kill("ws2")
    cluster.start("mdc1")
    mount = Starting(mounts, "retry=4")
    until(lambda: f"at {mount.directory}" in cluster.log("mdc1").rsplit("--- lab", 1)[1])
    cluster.kill("mdc1")
    assert "waiting for a controller for 4 min" in mount.line()
    cluster.start("mdc1")
    assert mount.ends() == "" and mount.process.returncode == 0
    assert os.path.ismount(mount.directory)
    mounts.made.append(mount.directory)
    cluster.start("ws2")


def test_a_mount_that_waits_ends_when_nobody_wants_it(mounts, no_controller):
    for number, to_all in ((signal.SIGINT, True), (signal.SIGTERM, False), (signal.SIGKILL, False)):
        mount = Starting(mounts, "rw")
        assert "waiting for a controller for 2 min" in mount.line()
        mount.signal(number) if to_all else mount.process.send_signal(number)
        mount.ends()
        assert mount.process.returncode != 0
        assert not os.path.ismount(mount.directory)


def test_retry_0_is_one_try(mounts, no_controller):
    said = Starting(mounts, "retry=0").ends()
    assert "no controller serves volume reel" in said and "waiting" not in said


def test_one_mount_waits_for_a_directory(cluster, mounts, no_controller):
    first = Starting(mounts, "rw")
    first.line()
    second = Starting(mounts, "rw")  # as of an administrator, while a unit waits
    assert "another mount.reelfs is about to mount there" in second.ends()
    assert second.process.returncode == 32
    cluster.start("mdc1")
    assert first.ends() == "" and first.process.returncode == 0
    mounts.made.append(first.directory)


def test_a_mount_waits_for_one_that_is_about_to_end(cluster, mounts, no_controller):
    first = Starting(mounts, "rw")
    first.line()
    second = Starting(mounts, "rw")  # as of an automount, whose first try systemd gave up
    until(second.looks_at_its_directory)
    first.process.terminate()
    first.ends()
    assert "waiting for a controller" in second.line()
    cluster.start("mdc1")
    assert second.ends() == "" and second.process.returncode == 0
    mounts.made.append(second.directory)


def test_a_mount_by_hand_is_one_of_the_network(mounts):
    directory = mounts.mount()
    with open("/run/mount/utab", encoding="utf-8") as utab:
        lines = [line for line in utab if f"TARGET={directory} " in line]
    assert len(lines) == 1 and "OPTS=_netdev" in lines[0], "a shutdown would not know"


def test_fuse_over_io_uring(mounts):
    """The log says what is used; whoever insists on it is told what to do."""
    best = "io_uring" if offers_uring() else "/dev/fuse"
    for options, wanted in (("rw", best), ("uring=off", "/dev/fuse"), ("uring=auto", best)):
        with open(f"{mounts.mount(options)}.log") as log:
            assert f"FUSE by {wanted}" in log.read(), options
    directory = os.path.join(mounts.scratch, "insists")
    os.makedirs(directory)
    if offers_uring():
        with open(f"{mounts.mount('uring=on', directory)}.log") as log:
            assert "FUSE by io_uring" in log.read()
    else:
        assert "enable_uring" in mounts.refused(directory, f"{mounts.where},uring=on")


def keeper_turns(directory):
    """How often the threads that keep spare entries of FUSE's rings have run."""
    turns = 0
    for pid in (entry for entry in os.listdir("/proc") if entry.isdigit()):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as line:
                if directory.encode() not in line.read().split(b"\0"):
                    continue
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/status") as status:
                    fields = dict(line.rstrip("\n").split(":\t", 1) for line in status)
                if fields["Name"] == "reel-keeper":
                    turns += int(fields["voluntary_ctxt_switches"])
        except FileNotFoundError:
            continue  # it ends
    return turns


@pytest.mark.skipif(not offers_uring(), reason="the kernel offers no FUSE over io_uring")
def test_calls_after_very_many_at_once_take_no_more_threads(mounts):
    """The kernel's stack of entries is in disorder then: each call takes what lies on top."""
    directory = mounts.mount("uring=on")
    path = os.path.join(directory, "turns")
    held = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_EX)
    waiters = 200  # fewer than what may wait for locks on one host

    def take_a_turn():
        own = os.open(path, os.O_RDWR)
        fcntl.flock(own, fcntl.LOCK_EX)
        os.close(own)
    with concurrent.futures.ThreadPoolExecutor(waiters) as threads:
        turns = [threads.submit(take_a_turn) for _ in range(waiters)]
        until(lambda: keeper_turns(directory) > 20)  # some wait at spare entries
        os.close(held)
        for turn in turns:
            turn.result(timeout=120)
    calls = 2_000
    before = keeper_turns(directory)
    for _ in range(calls):
        os.close(os.open(path, os.O_RDONLY))
    after = keeper_turns(directory)
    os.unlink(path)
    assert after - before < calls / 4
