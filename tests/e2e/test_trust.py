"""Who gets in and what they may do: TLS, roles, exports, squashed root; and one clear line each for
those who do not."""
import os
import shutil
import subprocess

import pytest

from cluster import run

CLUSTER = {"tls": True}
EXPORTS = """
[[volume.export]]
clients = ["ws2"]
"""


@pytest.fixture
def exported(cluster):
    """Gives ws2 an export: exported('access = "ro"'); everything is as before afterwards."""
    path = os.path.join(cluster.dir, "exports.toml")

    def export(rules, remount=False):
        with open(path, "w") as file:
            file.write(EXPORTS + rules + "\n")
        restart_mdc(cluster)
        if remount:
            cluster.kill("ws2", "TERM")
            cluster.start("ws2")

    yield export
    os.unlink(path)
    restart_mdc(cluster)
    cluster.kill("ws2", "TERM")
    cluster.start("ws2")


def restart_mdc(cluster):
    cluster.kill("mdc1", "TERM")
    cluster.start("mdc1")


def pki(cluster, *arguments):
    return cluster.tool("reeladm", "pki", *arguments)


def mount(cluster, files, volume="reel", address=None):
    """A mount that must fail, in the foreground; (exit code, its line)."""
    place = os.path.join(cluster.scratch, "mnt")
    os.makedirs(place, exist_ok=True)
    address = address or cluster.where("mdc1")
    options = ",".join([f"mdc={address}", f"luns={cluster.luns()}",
                        f"config={cluster.own_config()}", "retry=0",
                        *(f"{key}={path}" for key, path in files.items())])
    done = cluster.tool("mount.reelfs", volume, place, "-o", options)
    assert done.returncode != 0 and not os.path.ismount(place)
    assert done.stderr.count("\n") == 1, done.stderr
    return done.returncode, done.stderr


def reeladm(cluster, files):
    arguments = [part for key, path in files.items()
                 for part in ("--" + key.replace("_", "-"), path)]
    done = cluster.tool("reeladm", "--mdc", cluster.where("mdc1"), *arguments, "volumes")
    assert done.returncode != 0 and done.stderr.count("\n") == 1, done.stderr
    return done.returncode, done.stderr


def test_a_cluster_with_tls(cluster, room):
    with open(f"{room[0]}/file", "wb") as file:
        file.write(b"over TLS" * 1000)
    with open(f"{room[1]}/file", "rb") as file:
        assert file.read() == b"over TLS" * 1000
    sessions = cluster.reeladm("who")["sessions"]
    assert sorted(session["certificate"] for session in sessions) == ["ws1", "ws2"]
    assert "with TLS" in cluster.log("mdc1")
    restart_mdc(cluster)  # sessions resume with their certificates
    with open(f"{room[1]}/file", "ab") as file:
        file.write(b"more")
    assert len(cluster.reeladm("who")["sessions"]) == 2


def test_strangers_stay_outside(cluster):
    other = os.path.join(cluster.scratch, "other")
    assert pki(cluster, "init", other).returncode == 0
    for role in ("client", "admin"):
        assert pki(cluster, "issue", other, "--role", role, "--name", role).returncode == 0
    ours = cluster.tls_files("ws1")
    before = cluster.counters()["connection.refused"]
    # Another authority; a certificate of another authority; none at all.
    code, line = mount(cluster, cluster.tls_files("client", other))
    assert code == 32 and "the controller's certificate is not accepted" in line
    code, line = mount(cluster, {**cluster.tls_files("client", other), "tls_ca": ours["tls_ca"]})
    assert code == 1 and "is not accepted by tls_ca" in line
    code, line = mount(cluster, {})
    assert code == 32 and "the controller wants TLS" in line
    code, line = reeladm(cluster, cluster.tls_files("admin", other))
    assert code == 1 and "the controller's certificate is not accepted" in line
    code, line = reeladm(cluster, {})
    assert code == 1 and "the controller wants TLS" in line
    assert cluster.counters()["connection.refused"] >= before + 2
    assert "is refused: TLS: peer did not return a certificate" in cluster.log("mdc1")


def test_roles(cluster):
    code, line = reeladm(cluster, cluster.tls_files("ws1"))
    assert code == 2 and "has the role client; the role needed here is admin" in line
    code, line = mount(cluster, cluster.tls_files("admin"))
    assert code == 1 and "has the role admin; the role needed here is client" in line


def test_wrong_files(cluster):
    ours = cluster.tls_files("ws1")
    others_key = cluster.tls_files("ws2")["tls_key"]
    for change, words in (({"tls_key": "/nowhere.key"}, "tls_key /nowhere.key: No such file"),
                          ({"tls_key": others_key}, "does not fit tls_cert"),
                          ({"tls_cert": ours["tls_key"]}, "no certificate in PEM form"),
                          ({"tls_ca": cluster.luns().replace("*", "data1")}, "longer than 1 MiB")):
        code, line = mount(cluster, {**ours, **change})
        assert code == 1 and words in line


def test_an_absent_controller_is_named(cluster):
    code, line = mount(cluster, cluster.tls_files("ws1"), volume="real")
    assert code == 32 and "no volume real" in line
    code, line = mount(cluster, cluster.tls_files("ws1"), address="127.0.0.1:9")
    assert code == 32 and "Connection refused" in line


def mdcd_refuses(cluster, change):
    with open(os.path.join(cluster.dir, "hosts", "mdc1", "mdc.toml")) as file:
        text = change(file.read())
    path = os.path.join(cluster.scratch, "mdc.toml")
    with open(path, "w") as file:
        file.write(text)
    done = cluster.tool("reel-mdcd", "--check", "--config", path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_the_mdc_refuses_wrong_configurations(cluster):
    def without_tls(text):
        lines = [line for line in text.split("\n") if not line.startswith(("tls_", "listen"))]
        return 'listen = "0.0.0.0:7440"\n' + "\n".join(lines)

    assert "without TLS" in mdcd_refuses(cluster, without_tls)
    assert "has the role client" in mdcd_refuses(
        cluster, lambda text: text.replace("pki/mdc1.", "pki/ws1."))
    assert "does not fit" in mdcd_refuses(
        cluster, lambda text: text.replace("pki/mdc1.key", "pki/ws1.key"))


def test_pki_never_overwrites(cluster):
    directory = os.path.join(cluster.dir, "pki")
    for arguments in (("init", directory),
                      ("issue", directory, "--role", "client", "--name", "ws1")):
        again = pki(cluster, *arguments)
        assert again.returncode == 1 and "never overwritten" in again.stderr
    assert os.stat(os.path.join(directory, "ca.key")).st_mode & 0o777 == 0o600


def test_a_squashed_root(cluster, room, exported):
    one, two = room
    with open(f"{one}/secret", "w") as file:
        file.write("x")
    os.chmod(f"{one}/secret", 0o600)
    for name, mode in (("open", 0o777), ("sticky", 0o1777), ("closed", 0o700)):
        os.mkdir(f"{one}/{name}")
        os.chmod(f"{one}/{name}", mode)
    open(f"{one}/sticky/theirs", "w").close()
    exported('squash = "root"')

    with pytest.raises(PermissionError):
        open(f"{two}/file", "w")
    with pytest.raises(PermissionError):
        open(f"{two}/secret")
    with pytest.raises(PermissionError):
        os.listdir(f"{two}/closed")
    with pytest.raises(PermissionError):
        os.unlink(f"{two}/sticky/theirs")
    with pytest.raises(PermissionError):
        os.chmod(f"{two}/open", 0o700)
    with open(f"{two}/open/mine", "w") as file:
        file.write("by nobody")
    made = os.stat(f"{one}/open/mine")
    assert (made.st_uid, made.st_gid) == (65534, 65534)
    with pytest.raises(PermissionError):
        os.chown(f"{two}/open/mine", 0, 0)
    os.truncate(f"{two}/open/mine", 2)
    os.chmod(f"{two}/open/mine", 0o400)
    os.rename(f"{two}/open/mine", f"{two}/sticky/mine")
    with open(f"{one}/sticky/mine") as file:
        assert file.read() == "by"
    os.unlink(f"{two}/sticky/mine")
    # Others come as they are.
    run("setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "touch",
        f"{two}/open/users")
    assert os.stat(f"{one}/open/users").st_uid == 1000
    assert cluster.reeladm("who")["sessions"][1]["export"] == "rw,squash=root"


AS_USER = ("setpriv", "--reuid", "1000", "--regid", "1000")


def refused(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.returncode != 0 and ("Permission denied" in done.stderr or
                                     "Operation not permitted" in done.stderr)


def test_squashed_users_are_held_to_modes(cluster, room, exported):
    """With its capabilities a process passes its own kernel as any user; the controller does not
    believe it. Members of a group are that everywhere."""
    one, two = room
    disguised = (*AS_USER, "--clear-groups", "--inh-caps", "+all", "--ambient-caps", "+all")
    os.mkdir(f"{one}/shared")
    os.chown(f"{one}/shared", 0, 1234)
    os.chmod(f"{one}/shared", 0o770)
    open(f"{one}/roots", "w").close()
    exported('squash = "root"', remount=True)
    assert refused(*disguised, "touch", f"{two}/file")
    assert refused(*disguised, "rm", "-f", f"{two}/roots")
    assert refused(*disguised, "chmod", "666", f"{two}/roots")
    assert refused(*disguised, "touch", f"{two}/shared/file")
    run(*AS_USER, "--groups", "1234", "touch", f"{two}/shared/file")
    made = os.stat(f"{one}/shared/file")
    assert (made.st_uid, made.st_gid) == (1000, 1000)
    shutil.copy("/usr/bin/true", f"{one}/tool")
    os.chmod(f"{one}/tool", 0o711)  # to be run, not read
    assert refused(*disguised, "cat", f"{two}/tool")
    run(*AS_USER, "--clear-groups", f"{two}/tool")
    assert refused(*AS_USER, "--groups", "1234", *disguised[6:], "mknod", f"{two}/shared/disk",
                   "b", "8", "1")
    os.chmod(f"{one}/shared", 0o777)
    assert refused("mknod", f"{two}/shared/disk", "b", "8", "1")
    run("mkfifo", f"{two}/shared/fifo")
    # Nor is it believed what others have made.
    flags = os.statvfs(cluster.ws2).f_flag
    assert flags & os.ST_NOSUID and flags & os.ST_NODEV
    flags = os.statvfs(cluster.ws1).f_flag
    assert not flags & os.ST_NOSUID and not flags & os.ST_NODEV


def test_a_file_that_another_user_has_open_is_no_way_in(cluster, room, exported):
    exported('squash = "root"')
    path = f"{room[0]}/private"
    with open(path, "w") as file:
        file.write("x")
    os.chown(path, 1000, 1000)
    os.chmod(path, 0o600)
    holder = subprocess.Popen(["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups",
                               "sh", "-c", f"exec 3<{room[1]}/private; read a <&3; echo; read b"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"\n"  # it has the file open, and its token
        with pytest.raises(PermissionError):
            open(f"{room[1]}/private")
    finally:
        holder.communicate(b"\n", timeout=30)


def test_a_read_only_export(cluster, room, exported):
    with open(f"{room[0]}/file", "w") as file:
        file.write("text")
    # A mount that was there before learns it from the MDC's answers.
    exported('access = "ro"')
    for change in (lambda: open(f"{room[1]}/new", "w"), lambda: open(f"{room[1]}/file", "a"),
                   lambda: os.unlink(f"{room[1]}/file"), lambda: os.truncate(f"{room[1]}/file", 0),
                   lambda: os.utime(f"{room[1]}/file"),
                   lambda: os.setxattr(f"{room[1]}/file", "user.a", b"x")):
        with pytest.raises(OSError, match="Read-only file system"):
            change()
    with open(f"{room[1]}/file") as file:
        assert file.read() == "text"
    # A new one is mounted read-only.
    exported('access = "ro"', remount=True)
    assert os.statvfs(cluster.ws2).f_flag & os.ST_RDONLY
    with pytest.raises(OSError, match="Read-only file system"):
        os.mkdir(f"{room[1]}/dir")
    with open(f"{room[1]}/file") as file:
        assert file.read() == "text"


def test_no_export(cluster, exported):
    cluster.kill("ws2", "TERM")
    with open(os.path.join(cluster.dir, "exports.toml"), "w") as file:
        file.write(EXPORTS + 'access = "none"\n')
    restart_mdc(cluster)
    code, line = mount(cluster, cluster.tls_files("ws2"))
    assert code == 32 and "is not exported to ws2" in line
    os.unlink(os.path.join(cluster.dir, "exports.toml"))
    restart_mdc(cluster)
    cluster.start("ws2")
    exported('access = "rw"')
