"""From `reeladm setup` to a working volume with TLS, by nothing but the files that it wrote and the
commands that it printed: one host that is controller, client and administrator, on image LUNs."""
import json
import os
import shutil
import signal
import subprocess

import pytest

from cluster import BIN, run, scratch_directory
import network
from places import free_port

SECONDS = 60


class Host:
    """A machine with an /etc of its own, on which a set is made and used."""

    def __init__(self):
        self.base = scratch_directory()
        self.set, self.etc = os.path.join(self.base, "set"), os.path.join(self.base, "etc")
        self.mount_point = os.path.join(self.base, "mnt")
        self.luns = [os.path.join(self.base, f"{name}.img") for name in ("meta1", "data1", "data2")]
        for lun in self.luns:
            with open(lun, "w") as file:
                file.truncate(512 << 20)
        self.mdc = f"127.0.0.1:{free_port()}"
        self.daemon = None
        # What a step calls: our programs, and an ssh that stays here.
        tools = os.path.join(self.base, "tools")
        os.mkdir(tools)
        with open(os.path.join(tools, "ssh"), "w") as ssh:
            ssh.write('#!/bin/sh\n[ "$1" = root@127.0.0.1 ] && exec sh -c "$2"\n')
        os.chmod(os.path.join(tools, "ssh"), 0o755)
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("REELADM_")}
        self.environment["PATH"] = f"{tools}:{BIN}:{os.environ['PATH']}"

    def reeladm(self, *words, code=0):
        done = subprocess.run([os.path.join(BIN, "reeladm"), *words], text=True, timeout=SECONDS,
                              capture_output=True, stdin=subprocess.DEVNULL, env=self.environment)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def setup(self, *words, code=0):
        done = self.reeladm("setup", self.set, "--json", *words, code=code)
        return json.loads(done.stdout) if code == 0 else done.stderr

    def shell(self, command):
        return run("sh", "-c", command, env=self.environment, timeout=SECONDS)

    def copy(self, made, host="127.0.0.1"):
        command, = (entry["copy"] for entry in made["hosts"] if entry["host"] == host)
        self.shell(command)

    def step(self, made, program):
        """The printed command that calls this program."""
        steps = [step["run"] for step in made["next"] if program in step["run"]]
        assert steps, f"{program} is in none of {made['next']}"
        return steps[0]

    def start_controller(self, command):
        self.daemon = subprocess.Popen(command.split(), env=self.environment,
                                       stderr=subprocess.PIPE, text=True)
        for line in self.daemon.stderr:
            if "serving 1 volumes" in line:
                assert ", with TLS" in line
                return
        raise AssertionError("the controller ended")

    def mount(self, command):
        """As printed; mount(8) would look for its helper in /sbin, and /mnt is others'."""
        self.shell(command.replace("mount -t reelfs", "mount.reelfs")
                   .replace("/mnt/reel", self.mount_point))

    def doctor(self):
        """Its findings, without those about mounts of tests that run beside this one."""
        done = subprocess.run([os.path.join(BIN, "reeladm"), "doctor", "--dir", self.etc, "--json"],
                              text=True, timeout=SECONDS, capture_output=True)
        findings = json.loads(done.stdout)["findings"]
        failed = any(finding["level"] == "failure" for finding in findings)
        assert done.returncode == (1 if failed else 0), done
        return [finding for finding in findings
                if finding["check"] != "mount" or self.base in finding["subject"]]

    def down(self):
        if os.path.ismount(self.mount_point):
            subprocess.run(["umount", self.mount_point], timeout=SECONDS)
        if self.daemon:
            self.daemon.send_signal(signal.SIGTERM)
            assert self.daemon.wait(timeout=SECONDS) == 0
            self.daemon.stderr.close()
        shutil.rmtree(self.base)


@pytest.fixture
def host():
    made = Host()
    try:
        yield made
    finally:
        made.down()


@pytest.fixture(scope="module")
def cluster():
    """None: the stories here begin without one."""
    class Nothing:
        guard_test = disarm = staticmethod(lambda *_: None)
    return Nothing()


def client_of(mount_point):
    """The process that serves it."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                words = file.read().split("\0")
        except OSError:
            continue
        if mount_point in words and words[0].endswith("mount.reelfs"):
            return int(pid)
    raise AssertionError(f"nobody serves {mount_point}")


def levels(findings, check):
    return [finding["level"] for finding in findings if finding["check"] == check]


def options(host):
    return ["--volume", "reel", "--mdc", host.mdc, "--client", "127.0.0.1",
            "--luns", os.path.join(host.base, "*.img"), "--etc", host.etc,
            "--metadata", host.luns[0], "--data", host.luns[1], "--data", host.luns[2]]


def test_a_set_becomes_a_volume(host):
    made = host.setup(*options(host))
    assert not os.path.exists(host.etc), "setup writes into its own directory alone"
    host.copy(made)
    host.reeladm("config", "check", "--dir", host.etc)
    findings = host.doctor()  # no controller runs, and no volume is made
    assert levels(findings, "controller") == ["failure"]
    assert levels(findings, "volume") == ["failure"]
    assert set(levels(findings, "configuration")) == set(levels(findings, "certificate")) == {"ok"}

    host.shell(host.step(made, "mkfs.reelfs"))
    host.start_controller(host.step(made, "reel-mdcd "))
    host.mount(host.step(made, "mount -t reelfs"))
    path = os.path.join(host.mount_point, "clip.mov")
    data = os.urandom(3 << 20)
    with open(path, "wb") as file:
        file.write(data)
        os.fsync(file.fileno())
    with open(path, "rb") as file:
        assert file.read() == data
    assert "clip.mov" in os.listdir(host.mount_point)

    shown = host.shell(host.step(made, " show"))
    assert "reel" in shown and "active" in shown, shown
    findings = host.doctor()
    assert not [finding for finding in findings if finding["level"] == "failure"], findings
    assert levels(findings, "controller") == levels(findings, "volume") == ["ok"]
    assert levels(findings, "mount") == ["ok"]
    assert len(levels(findings, "lun")) == 3

    # A client that dies leaves a mount that answers no more.
    os.kill(client_of(host.mount_point), signal.SIGKILL)
    dead, = (finding for finding in host.doctor() if finding["check"] == "mount")
    assert dead["level"] == "failure" and "has died" in dead["text"], dead
    host.shell(f"umount -l {host.mount_point}")

    # fsck.reelfs finds the LUNs by the same file.
    host.daemon.send_signal(signal.SIGTERM)
    assert host.daemon.wait(timeout=SECONDS) == 0
    host.daemon.stderr.close()
    host.daemon = None
    host.shell(f"fsck.reelfs reel --config {host.etc}/mdc.toml")


def test_a_set_grows_and_keeps_what_is_there(host):
    made = host.setup(*options(host))
    with open(os.path.join(host.set, "pki", "ca.crt")) as file:
        authority = file.read()
    again = host.setup()
    assert {file["state"] for file in again["files"]} == {"unchanged"}
    assert not any("mkfs" in step["run"] for step in again["next"])

    grown = host.setup("--client", "edit-2")
    assert [entry["host"] for entry in grown["hosts"] if entry["changed"]] == ["edit-2"]
    with open(os.path.join(host.set, "hosts", "edit-2", "tls", "ca.crt")) as file:
        assert file.read() == authority
    assert [step["hosts"] for step in grown["next"] if "mount " in step["run"]] == [["edit-2"]]

    mdc = os.path.join(host.set, "hosts", "127.0.0.1", "mdc.toml")
    with open(mdc, "a") as file:
        file.write("# by hand\n")
    assert f"{mdc} was changed by hand" in host.setup("--client", "edit-3", code=1)
    assert not os.path.exists(os.path.join(host.set, "hosts", "edit-3"))
    host.setup("--client", "edit-3", "--force")
    assert made["volume"] == "reel"


def test_a_mistake_is_named_with_its_file_and_line(host):
    host.copy(host.setup(*options(host)))
    client = os.path.join(host.etc, "client.toml")
    with open(client) as file:
        lines = file.read().splitlines()
    lines[3] = lines[3].replace("tls_cert", "tls_crt")
    with open(client, "w") as file:
        file.write("\n".join(lines))
    done = host.reeladm("config", "check", "--dir", host.etc, code=1)
    assert f'{client}:4: unknown key "tls_crt"' in done.stdout
    shown = json.loads(host.reeladm("config", "show", "--dir", host.etc, "--json", code=1).stdout)
    luns, = (value for value in shown
             if value["program"] == "reel-mdcd" and value["key"] == "luns")
    assert luns["from"].startswith(os.path.join(host.etc, "reelfs.toml:"))
    assert luns["value"] == [os.path.join(host.base, "*.img")]


def test_what_is_missing_is_asked_for_on_a_terminal_alone(host):
    assert "--mdc is missing" in host.setup("--volume", "reel", code=2)
    answers = f"reel\n{host.mdc}\nedit-1\n{host.base}/*.img\n{host.luns[1]}\n\n"
    done = subprocess.run(["script", "-qec", f"{BIN}/reeladm setup {host.set}", "/dev/null"],
                          input=answers, text=True, capture_output=True, timeout=SECONDS)
    assert done.returncode == 0, done.stdout
    assert "Name of the volume" in done.stdout
    assert os.path.exists(os.path.join(host.set, "hosts", "edit-1", "client.toml"))


# An /etc of its own over the machine's: what is copied to /etc/reelfs is there for these alone.
IN_ETC = r"""
set -e
mkdir {base}/layer; mount -t tmpfs layer {base}/layer; mkdir {base}/layer/up {base}/layer/work
mount -t overlay etc -o lowerdir=/etc,upperdir={base}/layer/up,workdir={base}/layer/work /etc
{copy}
reeladm config check
mkfs.reelfs --config /etc/reelfs/volume.toml
reel-mdcd 2>{base}/log & daemon=$!
trap 'kill $daemon; wait $daemon || true' EXIT
for i in $(seq 200); do grep -q "serving 1 volumes" {base}/log && break; sleep 0.1; done
mkdir {base}/mnt
mount.reelfs reel {base}/mnt
echo text >{base}/mnt/file
cat {base}/mnt/file
reeladm show
reel-label list
umount {base}/mnt
trap - EXIT
kill $daemon; wait $daemon
fsck.reelfs reel
"""


def test_from_etc_reelfs_no_program_needs_an_option(host):
    made = host.setup(*(word for word in options(host) if word not in ("--etc", host.etc)))
    command, = (entry["copy"] for entry in made["hosts"])
    assert host.step(made, "reel-mdcd") == "systemctl enable --now reel-mdcd"
    said = run("unshare", "-m", "sh", "-c", IN_ETC.format(base=host.base, copy=command),
               env=host.environment, timeout=2 * SECONDS)
    assert "\ntext\n" in said and "meta1.img" in said and "reel: clean" in said, said


@pytest.fixture
def wire():
    """Two hosts, each with a network of its own, and a switch between: wire(mtu, mtu_between)."""
    if problem := network.why_not():
        pytest.skip(problem)
    here, there, switch = names = [f"reel-mtu-{os.getpid()}-{end}" for end in "abs"]
    listener = None

    def connect(mtu, mtu_between):
        nonlocal listener
        for name in names:
            run("ip", "netns", "add", name)
        run("ip", "-n", switch, "link", "add", "bridge", "type", "bridge")
        for number, host in ((1, here), (2, there)):
            port = f"port{number}"
            run("ip", "link", "add", "eth", "netns", host, "type", "veth",
                "peer", "name", port, "netns", switch)
            run("ip", "-n", switch, "link", "set", port, "master", "bridge", "mtu", mtu_between,
                "up")
            run("ip", "-n", host, "addr", "add", f"10.9.0.{number}/24", "dev", "eth")
            run("ip", "-n", host, "link", "set", "eth", "mtu", mtu, "up")
        run("ip", "-n", switch, "link", "set", "bridge", "up")
        serve = ("import socket\nlistener = socket.create_server(('10.9.0.2', 7440))\n"
                 "print(flush=True)\nwhile True:\n    listener.accept()[0].close()")
        listener = subprocess.Popen(["ip", "netns", "exec", there, "python3", "-c", serve],
                                    stdout=subprocess.PIPE)
        listener.stdout.readline()
        return ["ip", "netns", "exec", here]

    yield connect
    if listener:
        listener.kill()
        listener.communicate()
    for name in names:
        subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


@pytest.mark.parametrize("between,level,words", [(9000, "ok", "both ends take frames of 9000"),
                                                 (1500, "failure", "they get lost between")])
def test_frames_that_get_lost_between_are_noticed(host, wire, between, level, words):
    inside = wire(9000, between)
    os.mkdir(host.etc)
    with open(os.path.join(host.etc, "reelfs.toml"), "w") as file:
        file.write(f'mdc = ["10.9.0.2"]\nluns = ["{host.base}/*.img"]\n')
    done = subprocess.run([*inside, os.path.join(BIN, "reeladm"), "doctor", "--json", "--dir",
                           host.etc], capture_output=True, text=True, timeout=SECONDS)
    found, = (finding for finding in json.loads(done.stdout)["findings"]
              if finding["check"] == "mtu")
    assert found["level"] == level and words in found["text"], found
