"""What the lab knows of machines, without any: what they are made of, what is cut, and refused."""
import json
import os
import socket
import subprocess
import sys
import threading

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "deploy", "lab"))

from cluster import Cluster, cluster_of  # noqa: E402
from drill import run_drill  # noqa: E402
from places import places_of  # noqa: E402
from process import LabError  # noqa: E402
from spec import PoolSpec, Spec  # noqa: E402
from vm.hosts import MachineHost  # noqa: E402
from vm.image import Image  # noqa: E402
from vm.install import Installer, PackageSet  # noqa: E402
from vm.machine import Machine  # noqa: E402
from vm.qmp import Monitor  # noqa: E402
from vm.wires import Wires  # noqa: E402


def spec_of(**fields):
    pools = [PoolSpec("meta", 1, 1 << 30, ["metadata"]), PoolSpec("data", 2, 1 << 30, ["data"])]
    spec = Spec(**{"bin": "/nowhere", "pools": pools, "backend": "vm", "tls": True, **fields})
    spec.check()
    return spec


def cluster_in(directory, **fields):
    spec = spec_of(**fields)
    return cluster_of(str(directory), {"spec": spec.to_json(), "formatted": False,
                                       **places_of(spec)})


def image_in(directory, *versions):
    image = Image([], cache=str(directory))
    os.makedirs(image.dir)
    for version in versions:
        for name in ("vmlinuz", "initrd"):
            open(os.path.join(image.dir, f"{name}-{version}"), "w").close()
    return image


def test_each_host_has_a_number_of_its_own_and_kernels_come_in_turn(tmp_path):
    cluster = cluster_in(tmp_path, clients=3, kernels="6.1,6.12")
    assert [host.name for host in cluster.hosts] == ["san1", "mdc1", "mdc2", "ws1", "ws2", "ws3"]
    assert len({host.lan for host in cluster.hosts}) == 6
    assert [host.machine.kernel for host in cluster.clients] == ["6.1", "6.12", "6.1"]
    assert cluster.mdcs[0].address == f"{cluster.mdcs[0].lan}:7440"


@pytest.mark.parametrize("fields, words", [
    ({"lun_backend": "iscsi"}, "on a host of their own"),
    ({"kernels": "5.10"}, "a list of 6.1, 6.12"),
    ({"packages": "/nowhere"}, "no such directory"),
    ({"pools": [PoolSpec("all", 25, 1 << 30, ["metadata", "data"])]}, "24 at most"),
])
def test_what_machines_cannot_be_is_refused(fields, words):
    with pytest.raises(LabError, match=words):
        spec_of(**fields)


def test_a_kernel_is_found_by_its_whole_series(tmp_path):
    image = image_in(tmp_path, "6.12.9-cloud-amd64", "6.1.0-5-cloud-amd64")
    assert image.kernel("6.1")[0].endswith("vmlinuz-6.1.0-5-cloud-amd64")
    assert image.kernel("6.12")[1].endswith("initrd-6.12.9-cloud-amd64")
    with pytest.raises(LabError, match="no kernel 6.18"):
        image.kernel("6.18")


def test_another_recipe_is_another_image():
    assert Image(["a", "b"]).dir == Image(["b", "a"]).dir != Image(["a"]).dir


def test_the_disk_to_boot_from_comes_first_on_the_bus(tmp_path):
    machine = Machine("san1", str(tmp_path), 11, 384, "6.1", disks=[f"/lun{i}" for i in range(24)])
    image = image_in(tmp_path / "cache", "6.1.0-5-cloud-amd64")
    command = machine.command(image, "ssh-ed25519 KEY")
    words = [word for word in command if word]  # (there may be no QEMU here)
    slots = [int(word.split("addr=")[1].split(",")[0], 0) for word in words if "addr=0x" in word]
    disks = [word for word in words if word.startswith("virtio-blk-pci")]
    assert len(disks) == 25 and "serial=disk," in disks[0] and "serial=lun24," in disks[-1]
    places = [int(disk.split("addr=")[1].split(",")[0], 0) for disk in disks]
    assert places == sorted(places), "the kernel names disks by their order"
    assert len(set(slots)) == len(slots) and max(slots) < 0x20


def test_a_pulled_cable_stays_pulled_and_is_told_as_it_was_cut(tmp_path):
    pulled = []
    wires = Wires("id", {"ws1": 14, "mdc1": 12}, str(tmp_path), lambda *what: pulled.append(what))
    wires.cut("ws1", "path1")
    assert wires.cuts("ws1") == ["path1"] and wires.cuts("mdc1") == []
    wires.cut("ws1", "san")
    assert wires.cuts("ws1") == ["san"]
    wires.cut("ws1", "lan")
    again = Wires("id", {"ws1": 14}, str(tmp_path), None)
    assert again.cuts("ws1") == ["lan", "san"] and again.pulled("ws1") == ["lan", "path1", "path2"]
    wires.cut("ws1", "path2", heal=True)
    assert wires.cuts("ws1") == ["lan", "path1"]
    assert pulled == [("ws1", "path1", True), ("ws1", "path1", True), ("ws1", "path2", True),
                      ("ws1", "lan", True), ("ws1", "path2", False)]


def test_a_snapshot_is_of_a_whole_cluster_and_known_by_its_name(tmp_path, monkeypatch):
    cluster, told = cluster_in(tmp_path), []
    monkeypatch.setattr(MachineHost, "state", lambda host: "running")
    monkeypatch.setattr(cluster.network, "pull", lambda *_: None)
    for act in ("suspend", "resume"):
        monkeypatch.setattr(Machine, act, lambda machine, act=act: told.append((machine.name, act)))
    monkeypatch.setattr(Machine, "take_snapshot",
                        lambda machine, name: told.append((machine.name, name)))
    with pytest.raises(LabError, match="a name is a letter"):
        cluster.take_snapshot("-loadvm")
    cluster.partition("ws1", "path1")
    with pytest.raises(LabError, match="ws1 is cut off"):
        cluster.take_snapshot("here")
    assert not told
    cluster.partition("ws1", "path1", heal=True)
    cluster.take_snapshot("here")
    for name in ("san1", "mdc1", "ws2"):
        assert [what for host, what in told if host == name] == ["suspend", "here", "resume"]
    # Nobody's memory is kept while another one goes on.
    assert [what for _, what in told] == ["suspend"] * 5 + ["here"] * 5 + ["resume"] * 5
    with pytest.raises(LabError, match="no snapshot 'there'; there are: here"):
        cluster.revert("there")
    cluster.snapshots.forget()
    with pytest.raises(LabError, match="there are: none"):
        cluster.revert("here")


def test_a_snapshot_that_one_could_not_take_is_none(tmp_path, monkeypatch):
    cluster, resumed = cluster_in(tmp_path), []
    monkeypatch.setattr(MachineHost, "state", lambda host: "running")
    monkeypatch.setattr(Machine, "suspend", lambda machine: None)
    monkeypatch.setattr(Machine, "resume", lambda machine: resumed.append(machine.name))

    def take(machine, name):
        if machine.name == "mdc2":
            raise LabError("mdc2: no snapshot: no space")
    monkeypatch.setattr(Machine, "take_snapshot", take)
    with pytest.raises(LabError, match="mdc2: no snapshot"):
        cluster.take_snapshot("here")
    assert len(resumed) == 5 and cluster.snapshots.names() == []


def test_processes_have_no_snapshots():
    with pytest.raises(LabError, match="only machines have snapshots"):
        Cluster.take_snapshot(None, "here")


def test_a_luns_identity_is_the_one_that_lio_makes_of_its_serial(tmp_path):
    luns = cluster_in(tmp_path).luns
    serial, wwid = luns.serial("data1"), luns.wwid("data1")
    assert wwid == "36001405" + serial.replace("-", "")[:25] and len(wwid) == 33
    assert wwid != luns.wwid("data2")


def test_a_machines_log_is_its_journal_and_a_dead_one_says_nothing(tmp_path, monkeypatch):
    mdc, asked = cluster_in(tmp_path).mdcs[0], []

    def answer(script):
        asked.append(script)
        return subprocess.CompletedProcess(script, 0, "".join(
            json.dumps({"__REALTIME_TIMESTAMP": str(us), "PRIORITY": "6", "MESSAGE": words}) + "\n"
            for us, words in ((7_100_000, "before"), (7_300_000, "after"))), "")
    monkeypatch.setattr(mdc.guest, "try_shell", answer)
    assert mdc.marks(7.25) == [] and asked == []
    monkeypatch.setattr(mdc, "state", lambda: "running")
    assert mdc.marks(7.25) == [(7.3, "info", "after")]
    assert "--identifier=reel-mdcd --since=@7 " in asked[0]


@pytest.mark.parametrize("name, words", [
    ("disk-slow", "cannot be slowed"), ("cut-san-client", "needs four clients")])
def test_a_drill_that_machines_cannot_have_is_refused_at_once(tmp_path, name, words):
    with pytest.raises(LabError, match=words):
        run_drill(cluster_in(tmp_path), name)


def test_packages_are_found_by_name_and_their_libraries_are_debians(tmp_path):
    packages = PackageSet(str(tmp_path), spec_of(packages=str(tmp_path)))
    (tmp_path / "reelfs-mdc_1_amd64.deb").touch()
    (tmp_path / "reelfs-mdc-dbgsym_1_amd64.deb").touch()
    assert packages.path("reelfs-mdc").endswith("/reelfs-mdc_1_amd64.deb")
    (tmp_path / "reelfs-mdc_2_amd64.deb").touch()
    with pytest.raises(LabError, match="2 packages reelfs-mdc"):
        packages.path("reelfs-mdc")


def test_terms_stand_before_the_volumes_of_a_controller(tmp_path, monkeypatch):
    cluster = cluster_in(tmp_path, seat_ms=3000)

    def setup(command, _inside=()):
        for mdc in cluster.mdcs:
            place = os.path.join(command[2], "hosts", mdc.name)
            os.makedirs(place)
            with open(os.path.join(place, "mdc.toml"), "w") as file:
                file.write('listen = "[::]:7440"\n\n[[volume]]\nname = "reel"\n')
    monkeypatch.setattr("vm.install.run_program", setup)
    Installer(cluster).write_set()
    text = (tmp_path / "set" / "hosts" / "mdc2" / "mdc.toml").read_text()
    assert 0 < text.index("seat_ms = 3000") < text.index("[[volume]]")


@pytest.fixture
def monitor(tmp_path):
    """A Monitor, and what it has been asked: the emulator's answers are given beforehand."""
    path = str(tmp_path / "monitor")

    def serve(*answers):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()

        def answer():
            with listener, listener.accept()[0] as wire, wire.makefile("rw") as lines:
                lines.write('{"QMP": {}}\n')
                lines.flush()
                for words in ('{"return": {}}', *answers):
                    asked.append(json.loads(lines.readline()))
                    lines.write(words + "\n")
                    lines.flush()
        threading.Thread(target=answer, daemon=True).start()
        return Monitor("ws1", path)
    asked = []
    serve.asked = asked
    return serve


def test_events_are_no_answers(monitor):
    found = monitor('{"event": "STOP"}\n{"return": {"status": "paused"}}').execute("query-status")
    assert found == {"status": "paused"}
    assert [words["execute"] for words in monitor.asked] == ["qmp_capabilities", "query-status"]


def test_an_emulators_error_is_told_with_the_hosts_name(monitor):
    with pytest.raises(LabError, match="ws1: Device 'lan' not found"):
        monitor('{"error": {"desc": "Device \'lan\' not found"}}').execute("set_link", name="lan")


def test_an_emulator_that_is_gone_is_told(tmp_path):
    with pytest.raises(LabError, match="ws1: its monitor does not answer cont"):
        Monitor("ws1", str(tmp_path / "nothing")).execute("cont")
