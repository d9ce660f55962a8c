"""The lab's own promises, with daemons that only say READY: identity, errors, cleaning up."""
import json
import os
import subprocess

import pytest

LAB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "deploy", "lab", "lab")
PROGRAMS = ("reel-label", "mkfs.reelfs", "fsck.reelfs", "reeladm", "reel-mdcd", "mount.reelfs")

FAKE = """#!/usr/bin/env python3
import os, signal, socket, sys
name = os.path.basename(sys.argv[0])
with open(os.path.join(os.path.dirname(sys.argv[0]), "calls"), "a") as calls:
    print(name, *sys.argv[1:], file=calls)
if name == "reel-label":
    os.stat(sys.argv[3])
if name in ("reel-mdcd", "mount.reelfs"):
    if os.environ.get("FAKE_FAILS") == name:
        sys.exit("the seat LUN is missing")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.connect(os.environ["NOTIFY_SOCKET"])
        notify.send(b"STATUS=up\\nREADY=1")
    signal.sigwait([signal.SIGTERM])
"""


@pytest.fixture
def lab(tmp_path):
    """lab(verb, …) on one directory, with fake programs; returns the finished process."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in PROGRAMS:
        (programs / name).write_text(FAKE)
        (programs / name).chmod(0o755)

    def run(verb, *arguments, **environment):
        if verb == "up":
            arguments += ("--bin", str(programs))
        return subprocess.run([LAB, verb, "--dir", run.dir, *arguments], capture_output=True,
                              text=True, timeout=60, env={**os.environ, **environment})

    run.dir, run.calls = str(tmp_path / "cluster"), programs / "calls"
    run.hosts = lambda: {host["host"]: host for host in
                         json.loads(run("status", "--json").stdout)["hosts"]}
    yield run
    run("down")


def test_up_starts_all_hosts_and_down_leaves_nothing(lab):
    assert lab("up", "--clients", "3").returncode == 0
    assert lab("status").returncode == 0
    assert list(lab.hosts()) == ["mdc1", "mdc2", "ws1", "ws2", "ws3"]
    pids = [host["pid"] for host in lab.hosts().values()]
    assert lab("down").returncode == 0
    assert not os.path.exists(lab.dir)
    assert not any(os.path.exists(f"/proc/{pid}") and "reel" in open(f"/proc/{pid}/cmdline").read()
                   for pid in pids)
    assert lab("down").returncode == 0


def test_programs_read_no_configuration_of_this_machine(lab):
    """A client.toml in /etc/reelfs, with TLS for another cluster, made `lab up` fail."""
    assert lab("up").returncode == 0
    lab("status", REELADM_TLS_CA="/nowhere")
    for call in lab.calls.read_text().splitlines():
        words = call.replace("config=", "--config ").replace(",", " ").split()
        if words[0] in ("mkfs.reelfs", "reel-mdcd", "mount.reelfs", "fsck.reelfs", "reeladm"):
            config = words[words.index("--config") + 1]
            assert config.startswith(lab.dir) and os.path.exists(config), call


def test_up_again_starts_only_what_is_missing(lab):
    lab("up")
    before = lab.hosts()
    assert lab("kill", "ws1").returncode == 0
    assert lab("status").returncode == 3
    calls = lab.calls.read_text()
    assert lab("up").returncode == 0
    after = lab.hosts()
    assert after["ws2"]["pid"] == before["ws2"]["pid"]
    assert after["ws1"]["pid"] not in (None, before["ws1"]["pid"])
    assert lab.calls.read_text()[len(calls):].split()[0] == "mount.reelfs"
    refused = lab("up", "--clients", "5")
    assert refused.returncode == 1 and "other clients" in refused.stderr


def test_restart_keeps_addresses(lab):
    lab("up")
    before = lab.hosts()
    assert lab("restart").returncode == 0
    after = lab.hosts()
    assert after["mdc1"]["where"] == before["mdc1"]["where"]
    assert after["mdc1"]["pid"] != before["mdc1"]["pid"]


def test_a_recycled_pid_is_not_ours(lab):
    lab("up", "--clients", "0")
    lab("kill", "mdc1")
    stranger = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    with open(os.path.join(lab.dir, "hosts", "mdc1", "pid"), "w") as record:
        record.write(f"{stranger.pid} 12345\n")
    assert lab.hosts()["mdc1"]["state"] == "stopped"
    assert "does not run" in lab("kill", "mdc1").stderr
    lab("down")
    assert stranger.poll() is None
    stranger.stdin.close()
    stranger.wait()


def test_a_daemon_that_fails_is_named_with_its_last_words(lab):
    failed = lab("up", FAKE_FAILS="reel-mdcd")
    assert failed.returncode == 1
    assert failed.stderr.startswith("lab: mdc1: ended with status 1 before it was ready")
    assert "the seat LUN is missing" in failed.stderr
    assert lab("up").returncode == 0


def test_stopped_daemon_can_be_taken_down(lab):
    lab("up")
    assert lab("kill", "mdc1", "STOP").returncode == 0
    assert lab.hosts()["mdc1"]["state"] == "running"
    assert lab("down").returncode == 0


def test_images_are_sparse_unless_they_are_to_be_written_once(lab):
    for options, written in (([], False), (["--allocated"], True)):
        assert lab("up", "--clients", "0", "--luns", "meta=1x64M,data=1x64M",
                   *options).returncode == 0
        image = os.stat(lab.calls.read_text().splitlines()[0].split()[3])
        assert (image.st_blocks * 512 >= image.st_size) == written
        lab("down")
        lab.calls.unlink()


def test_pools_reach_labels_and_mkfs(lab, tmp_path):
    config = tmp_path / "cluster.toml"
    config.write_text('clients = 0\nblock_size = "64KiB"\n'
                      '[[pool]]\nname = "meta"\nluns = 1\nsize = "1G"\n'
                      '[[pool]]\nname = "fast"\nluns = 2\nsize = "512M"\n'
                      'flags = ["data", "exclusive"]\naffinities = ["online"]\n')
    assert lab("up", "--config", str(config)).returncode == 0
    calls = lab.calls.read_text().splitlines()
    assert [call.split()[2] for call in calls[:3]] == ["meta1", "fast1", "fast2"]
    assert os.path.getsize(calls[2].split()[3]) == 512 << 20
    volume = open(os.path.join(lab.dir, "volume.toml")).read()
    assert 'flags = ["data", "exclusive"]' in volume and 'affinities = ["online"]' in volume


def test_hosts_in_namespaces_have_addresses_of_their_own(lab):
    up = lab("up", "--backend", "netns")
    if up.returncode != 0 and "--backend netns: " in up.stderr:
        assert up.stderr.count("\n") == 1
        pytest.skip(up.stderr)
    assert up.returncode == 0, up.stderr
    names = set(subprocess.run(["ip", "netns", "list"], capture_output=True,
                               text=True).stdout.split())
    with open(os.path.join(lab.dir, "lab.json")) as file:
        mine = f"reel-{json.load(file)['network']['id']}-"
    assert {f"{mine}{host}" for host in ("hub", "mdc1", "mdc2", "ws1", "ws2")} <= names
    shown = lab("exec", "--host", "ws2", "--", "ip", "-br", "address").stdout
    assert "10.77.0." in shown and "10.78.0." in shown
    assert lab("partition", "ws2", "san").returncode == 0
    assert lab.hosts()["ws2"]["cut"] == ["san"] and lab.hosts()["ws1"]["cut"] == []
    subprocess.run(["ip", "netns", "delete", f"{mine}mdc2"], check=True)
    assert lab("kill", "mdc2").returncode == 0
    assert lab("up").returncode == 0, "what is missing is made"
    assert lab.hosts()["ws2"]["cut"] == ["san"]
    stranger = subprocess.Popen(["ip", "netns", "exec", f"{mine}ws1", "sleep", "600"])
    assert lab("down").returncode == 0
    assert stranger.wait() == -9
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    assert mine not in left


def test_limits_of_one_loopback_are_reported(lab):
    lab("up", "--clients", "0")
    assert "--backend netns" in lab("partition", "mdc1", "lan").stderr
    assert "is no machine" in lab("power", "mdc1", "off").stderr
    assert "--lun-delays" in lab("slow", "meta1", "10").stderr
    assert lab("exec", "--", "echo", "here").stdout == "here\n"
    assert "no host ws7" in lab("exec", "--host", "ws7", "--", "true").stderr


@pytest.mark.parametrize("arguments, words", [
    (["--backend", "cloud"], "process, netns or vm"),
    (["--lun-delays"], "takes --lun-backend iscsi"),
    (["--portals", "2"], "takes --lun-backend iscsi"),
    (["--portals", "9"], "1 to 8"),
    (["--mdcs", "9"], "of which one is active"),
    (["--luns", "data"], "is not POOL=COUNTxSIZE"),
    (["--luns", "a=1xlots"], "is not a size"),
    (["--luns", "a=1x1G:fast"], "flags fast"),
    (["--config", "/nowhere"], "/nowhere"),
])
def test_impossible_requests_are_refused_on_one_line(lab, arguments, words):
    refused = lab("up", *arguments)
    assert refused.returncode == 1 and words in refused.stderr
    assert refused.stderr.count("\n") == 1 and refused.stderr.startswith("lab: ")
    assert not os.path.exists(lab.dir)


def test_a_directory_of_someone_else_is_left_alone(lab):
    os.makedirs(lab.dir)
    with open(os.path.join(lab.dir, "thesis.txt"), "w"):
        pass
    assert "not empty" in lab("up").stderr
    assert os.listdir(lab.dir) == ["thesis.txt"]
