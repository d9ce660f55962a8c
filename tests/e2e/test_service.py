"""reel-mdcd as a service manager starts it: what it waits for, and how it says what is wrong."""
import os
import pty
import select
import signal
import socket
import subprocess

from cluster import run


def config_of(cluster):
    return os.path.join(cluster.dir, "hosts", "mdc1", "mdc.toml")


def read_until(process, words):
    lines = []
    for line in process.stderr:
        lines.append(line)
        if words in line:
            return lines
    raise AssertionError(f"{words!r} never came:\n{''.join(lines)}")


def test_a_missing_lun_is_waited_for(cluster, room):
    with open(f"{room[0]}/file", "w") as file:
        file.write("text")
        os.fsync(file.fileno())
    cluster.kill("mdc1", "TERM")
    lun = os.path.join(cluster.dir, "luns", "data1.img")
    os.rename(lun, f"{lun}.away")
    done = cluster.tool("reel-mdcd", "--check", "--config", config_of(cluster))
    assert done.returncode == 3 and "data1" in done.stderr, done
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.bind(os.path.join(cluster.scratch, "notify"))
    told.settimeout(60)
    daemon = subprocess.Popen([os.path.join(cluster.bin, "reel-mdcd"), "--config",
                               config_of(cluster)], stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "NOTIFY_SOCKET": told.getsockname()})
    try:
        read_until(daemon, "waiting for it")
        # Else everything that is ordered after it waits: remote mounts, and so the logins.
        assert told.recv(4096).decode().split("\n") == \
            ["READY=1", "STATUS=waiting for LUNs of reel"]
        os.rename(f"{lun}.away", lun)
        lines = read_until(daemon, "serving 1 volumes")
        assert not any("waiting for it" in line for line in lines), "said once"
        run("timeout", "60", "cat", f"{room[1]}/file")
    finally:
        daemon.terminate()
        daemon.communicate()
        told.close()
        if os.path.exists(f"{lun}.away"):
            os.rename(f"{lun}.away", lun)
        cluster.start("mdc1")
    assert daemon.returncode == 0
    assert cluster.tool("reel-mdcd", "--check", "--config", config_of(cluster)).returncode == 0


def test_a_daemon_that_waits_can_be_stopped(cluster):
    path = os.path.join(cluster.scratch, "mdc.toml")
    with open(config_of(cluster)) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(text.replace(os.path.join(cluster.dir, "luns"), cluster.scratch))
    daemon = subprocess.Popen([os.path.join(cluster.bin, "reel-mdcd"), "--config", path],
                              stderr=subprocess.PIPE, text=True)
    read_until(daemon, "waiting for it")
    daemon.terminate()
    daemon.communicate()
    assert daemon.returncode == 0


def test_errors_are_marked_in_the_journal(cluster):
    reading, writing = os.pipe()
    facts = os.fstat(writing)
    for stream, begin in ((f"{facts.st_dev}:{facts.st_ino}", "<3>reel-mdcd: "),
                          ("1:1", "reel-mdcd: ")):  # of the session that a terminal belongs to
        done = subprocess.run([os.path.join(cluster.bin, "reel-mdcd"), "--config", "/nowhere"],
                              stderr=writing, env={**os.environ, "JOURNAL_STREAM": stream},
                              timeout=60)
        assert done.returncode == 2
        assert os.read(reading, 4096).decode().startswith(begin)
    done = subprocess.run([os.path.join(cluster.bin, "reel-mdcd"), "--no-such-option"],
                          stderr=writing, timeout=60,
                          env={**os.environ, "JOURNAL_STREAM": f"{facts.st_dev}:{facts.st_ino}"})
    assert done.returncode == 2
    lines = os.read(reading, 4096).decode().splitlines()
    assert lines and all(line.startswith("<3>") for line in lines), lines


def test_a_hangup_does_not_end_a_controller(cluster, room):
    os.kill(cluster.hosts()["mdc1"]["pid"], signal.SIGHUP)
    os.mkdir(f"{room[0]}/after-it")
    assert cluster.hosts()["mdc1"]["state"] == "running"
    assert cluster.reeladm("volumes")["volumes"][0]["role"] == "active"


class Terminal:
    """A program at a terminal, as a person uses it."""

    def __init__(self, *command):
        self.here, there = pty.openpty()
        self.process = subprocess.Popen(command, stdin=there, stdout=there, stderr=there,
                                        start_new_session=True)
        os.close(there)
        self.seen = ""

    def expect(self, words):
        while words not in self.seen:
            assert select.select([self.here], [], [], 60)[0], self.seen
            self.seen += os.read(self.here, 4096).decode()
        self.seen = self.seen[self.seen.index(words) + len(words):]

    def type(self, text):
        os.write(self.here, text.encode())

    def end(self):
        os.close(self.here)
        return self.process.wait(timeout=60)


def test_the_shell_survives_an_interrupt(cluster):
    shell = Terminal(os.path.join(cluster.bin, "reeladm"), "--config", cluster.own_config(),
                     "--mdc", cluster.where("mdc1"), "--volume", "reel")
    shell.expect("reeladm reel> ")
    for _ in range(500):  # some come just before the shell waits for a key
        shell.type("no such line")
        shell.expect("no such line")
        os.kill(shell.process.pid, signal.SIGINT)  # Ctrl-C
        shell.expect("reeladm reel> ")
    shell.type("stop\n")
    shell.expect("[y/N] ")
    shell.type("n\n")
    shell.expect("nothing was done")
    shell.expect("reeladm reel> ")
    shell.type("quit\n")
    assert shell.end() == 0
    assert cluster.hosts()["mdc1"]["state"] == "running"
    assert cluster.reeladm("volumes")["volumes"][0]["role"] == "active"
