"""The administration shell: at a terminal, and each command's JSON by its schema."""
import json
import os
import pty
import re
import select
import signal
import subprocess
import tarfile
import time

import pytest

import json_schema
from cluster import until

CLUSTER = {"mdcs": 2, "seat_ms": 1500, "luns": "meta=1x1G,data=2x1G"}
FILE_BYTES = 3 << 20


def where(cluster):
    return ",".join(cluster.where(mdc) for mdc in cluster.mdcs)


def ask(cluster, *words, options=()):
    return cluster.tool("reeladm", "--mdc", where(cluster), *options, *words)


def answered(cluster, *words, schema=None):
    """The JSON of a command, which is as its schema says."""
    done = ask(cluster, "--json", *words)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    json_schema.check(schema or words[0], document)
    return document


class Terminal:
    """reeladm as somebody sees it who types."""

    def __init__(self, cluster, home, *options, **environment):
        program = os.path.join(cluster.bin, "reeladm")
        words = [program, "--config", cluster.own_config(), "--mdc", where(cluster), *options]
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(HOME=str(home), TERM="vt100", LC_ALL="C.UTF-8", INPUTRC="/dev/null",
                              COLUMNS="200", **environment)
            os.execv(program, words)
        self.shown = ""
        self.expect(r"reeladm[ \w]*> ")

    def expect(self, pattern, limit_s=60):
        """Reads until that has been shown; all up to its end."""
        end = time.monotonic() + limit_s
        while not (found := re.search(pattern, self.shown)):
            assert time.monotonic() < end, f"{pattern!r} was not shown but {self.shown!r}"
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    self.shown += os.read(self.fd, 65536).decode(errors="replace")
                except OSError as error:  # it has ended
                    raise AssertionError(f"ended without {pattern!r}: {self.shown!r}") from error
        shown, self.shown = self.shown[:found.end()], self.shown[found.end():]
        return shown

    def type(self, text):
        os.write(self.fd, text.encode())

    def command(self, line):
        """What a line shows, up to the next prompt."""
        self.type(line + "\n")
        self.expect(re.escape(line[-1]) + r"[^\n]*\r?\n")
        return self.expect(r"reeladm[ \w]*> ")

    def give_up_line(self):
        self.type("\x03")
        self.expect(r"\^C\r?\n")
        self.expect(r"reeladm[ \w]*> ")

    def end(self):
        self.type("quit\n")
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def terminal(cluster, tmp_path):
    shell = Terminal(cluster, tmp_path)
    yield shell
    try:
        os.kill(shell.pid, signal.SIGKILL)
        os.waitpid(shell.pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass
    os.close(shell.fd)


@pytest.fixture
def file(room):
    path = os.path.join(room[0], "a file.mov")
    with open(path, "wb") as out:
        out.write(os.urandom(FILE_BYTES))
        os.fsync(out.fileno())
    return path


def test_tab_completes_commands_and_names(cluster, terminal, room):
    terminal.type("sel\t")
    terminal.expect("select ")
    terminal.type("\t\n")  # there is one volume
    terminal.expect("Volume reel is selected")
    terminal.expect("reeladm reel> ")
    terminal.type("show da\t")
    terminal.expect("data ")
    terminal.type("lo\t\n")
    shown = terminal.expect(r"LUN +pool(.|\n)*reeladm reel> ")
    assert re.search(r"(?m)^data2 ", shown) and not re.search(r"(?m)^meta1 ", shown)
    terminal.type("trace \t\t")  # clients are offered, by name and number
    terminal.expect(r"\ball\b")
    terminal.give_up_line()
    terminal.type(f"extents {room[0][:-3]}\t")
    terminal.expect(re.escape(room[0][-3:]))
    terminal.give_up_line()
    assert terminal.end() == 0


def test_history_is_kept(cluster, terminal, tmp_path):
    terminal.command("stat commit.")
    assert terminal.end() == 0
    history = tmp_path / ".reeladm_history"
    assert "stat commit." in history.read_text()
    assert history.stat().st_mode & 0o077 == 0
    again = Terminal(cluster, tmp_path)
    again.type("\x10\x10\n")  # the line before "quit"
    again.expect("stat commit\\.[^\n]*\n")
    assert "commit.batches" in again.expect("reeladm> ")
    assert again.end() == 0


def test_watch_shows_again_until_interrupted(cluster, terminal):
    terminal.type("stat session.now --watch 1\n")
    terminal.expect("Every 1 s: stat session.now")
    terminal.expect("Every 1 s: stat session.now")
    terminal.expect("a second")
    terminal.type("\x03")
    terminal.expect("reeladm> ")
    assert "session.now" in terminal.command("stat session.now"), "the shell goes on"
    assert terminal.end() == 0


def test_help_examples_and_programs_without_a_controller(cluster, terminal, tmp_path):
    assert "reeladm locks break" in terminal.command("help locks")
    assert "Also called sessions" in terminal.command("help who")
    os.mkdir(tmp_path / "etc")
    for _ in range(2):
        assert "holds none of" in terminal.command(f"config check --dir {tmp_path}/etc")
    assert "advertise" in terminal.command("config running")
    assert terminal.end() == 0


def test_colours_are_for_terminals_that_want_them(cluster, tmp_path):
    answered(cluster, "maintenance", "on")
    try:
        shell = Terminal(cluster, tmp_path, "--volume", "reel")
        assert "\x1b[33mIN MAINTENANCE" in shell.command("show")
        assert shell.end() == 0
        plain = Terminal(cluster, tmp_path, "--volume", "reel", NO_COLOR="1")
        assert "\r\nIN MAINTENANCE" in plain.command("show")
        assert plain.end() == 0
        assert "\x1b" not in ask(cluster, "show").stdout
    finally:
        answered(cluster, "maintenance", "off")


def test_asks_before_what_destroys_unless_told(cluster, terminal):
    session = cluster.session_of("ws2")
    terminal.type(f"evict {session}\n")
    terminal.expect(r"\[y/N\] ")
    terminal.type("n\n")
    terminal.expect("nothing was done")
    terminal.expect("reeladm> ")
    assert "is ending" in terminal.command(f"evict {session} --yes")
    assert terminal.end() == 0
    until(lambda: cluster.session_of("ws2") not in (None, session))


def test_a_script_ends_at_its_first_error(cluster):
    done = subprocess.run([os.path.join(cluster.bin, "reeladm"), "--config", cluster.own_config(),
                           "--mdc", where(cluster)], input="# of a file\nshwo\nvolumes\n",
                          text=True, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "shwo" in done.stderr


def test_every_command_has_a_schema(cluster):
    listed = answered(cluster, "help")["commands"]
    names = [entry["command"].split()[0] for entry in listed]
    for name in names:
        assert name in json_schema.SCHEMA["$defs"] or name == "config", name


def test_what_shows_is_as_its_schema_says(cluster, file):
    for name in ("volumes", "fsmlist", "disks", "show", "stat", "who", "paths", "locks",
                 "reservations", "maintenance", "affinity", "dump", "exports", "cert",
                 "log-level", "jobs", "quota", "scrub", "free"):
        answered(cluster, name)
    answered(cluster, "quota", "list")
    assert answered(cluster, "affinity", file)["paths"]
    running = answered(cluster, "config", "running", schema="config running")
    settings = [{each["name"]: each["value"] for each in mdc["settings"]}
                for mdc in running["controllers"]]
    assert [each["seat_ms"] for each in settings] == ["1500", "1500"]
    assert len(answered(cluster, "fsmlist")["controllers"]) == 2


def test_extents_say_where_a_file_lies(cluster, room, file):
    # What was granted ahead of its writer goes back after the close.
    until(lambda: {each["state"] for each in answered(cluster, "extents", file)["extents"]} ==
          {"written"})
    extents = answered(cluster, "extents", file)
    assert extents["inode"] == os.stat(file).st_ino
    assert extents["path"] == "/" + os.path.relpath(file, cluster.ws1)
    assert extents["size_bytes"] == FILE_BYTES
    written = [each for each in extents["extents"] if each["state"] == "written"]
    assert sum(each["length_bytes"] for each in written) >= FILE_BYTES
    luns = {lun["name"]: lun["path"] for pool in cluster.reeladm("show")["pools"]
            for lun in pool["luns"]}
    with open(file, "rb") as whole:
        data = whole.read()
    for each in written:  # the bytes lie there
        for piece in each["pieces"][:1]:
            with open(luns[piece["lun"]], "rb") as lun:
                lun.seek(piece["offset_bytes"])
                assert lun.read(4096) == data[each["offset_bytes"]:][:4096]
    # The same by its path, as the controller resolves it.
    assert answered(cluster, "extents", extents["path"]) == extents
    assert answered(cluster, "extents", room[0])["type"] == "directory"
    done = ask(cluster, "extents", "/no/such/file")
    assert done.returncode == 1 and "/no/such/file" in done.stderr


def test_open_files_are_told_with_who_has_them(cluster, file):
    with open(file, "rb+") as held:
        held.write(b"x")
        held.flush()
        [entry] = answered(cluster, "repof", file)["files"]
        [holder] = entry["holders"]
        assert holder["session"] == cluster.session_of("ws1")
        assert holder["token"] == "exclusive"
        assert entry["path"] == "/" + os.path.relpath(file, cluster.ws1)
        assert entry in answered(cluster, "repof")["files"]


def total(client, member):
    return sum(lun[member] for lun in client["luns"])


def test_clients_tell_what_they_read_and_write(cluster, room):
    def mine():
        return next(each for each in answered(cluster, "who", "long")["sessions"]
                    if each["session"] == cluster.session_of("ws1"))

    before = total(mine(), "written_bytes")
    with open(os.path.join(room[0], "written"), "wb") as out:
        out.write(os.urandom(8 << 20))
        os.fsync(out.fileno())
    until(lambda: total(mine(), "written_bytes") >= before + (8 << 20))  # with a renewal
    assert {lun["lun"] for lun in mine()["luns"]} == {"data1", "data2", "meta1"}
    busy = answered(cluster, "top", "2")
    assert {each["lun"] for each in busy["luns"]} == {"data1", "data2", "meta1"}
    paths = answered(cluster, "paths")["paths"]
    assert {each["host"] for each in paths} >= {"controller"}
    assert not [each for each in paths if each["problem"]]


def test_round_trips_and_operations_are_measured(cluster, room):
    trips = answered(cluster, "latency-test", "all", "2")
    sessions = {cluster.session_of(client) for client in cluster.clients}
    assert {each["session"] for each in trips["series"]} == sessions
    for each in trips["series"]:
        assert each["count"] > 0 and each["least_us"] <= each["median_us"] <= each["most_us"]

    session = cluster.session_of("ws2")
    tracing = subprocess.Popen(
        [os.path.join(cluster.bin, "reeladm"), "--config", cluster.own_config(), "--mdc",
         where(cluster), "--json", "trace", str(session), "3"], stdout=subprocess.PIPE, text=True)
    made = 0
    while tracing.poll() is None:
        path = os.path.join(room[1], str(made))
        with open(path, "wb") as out:
            os.fsync(out.fileno())
        os.unlink(path)
        made += 1
    traced = json.loads(tracing.communicate()[0])
    json_schema.check("trace", traced)
    assert {each["session"] for each in traced["series"]} == {session}
    assert {"create", "unlink"} <= {each["operation"] for each in traced["series"]}
    assert ask(cluster, "trace", "no-such-host").returncode == 1


def test_exports_are_read_anew_without_a_restart(cluster):
    running = answered(cluster, "config", "running", schema="config running")
    old = {}
    for mdc in running["controllers"]:
        with open(mdc["config"], encoding="utf-8") as config:
            old[mdc["config"]] = config.read()
    try:
        for path, text in old.items():
            with open(path, "a", encoding="utf-8") as out:
                out.write('\n[[volume.export]]\nclients = ["*"]\naccess = "ro"\n')
        told = answered(cluster, "exports", "reload")["controllers"]
        assert [each["exports"] for each in told] == \
            2 * [[{"clients": ["*"], "access": "ro", "squash": "none"}]]
        session = cluster.session_of("ws2")
        assert cluster.reeladm("who")["sessions"][0]["export"] == "rw", "until it connects anew"
        ask(cluster, "evict", str(session))
        until(lambda: cluster.session_of("ws2") not in (None, session))
        now = cluster.session_of("ws2")
        exports = {each["session"]: each["export"] for each in cluster.reeladm("who")["sessions"]}
        assert exports[now] == "ro"
    finally:
        for path, text in old.items():
            with open(path, "w", encoding="utf-8") as out:
                out.write(text)
        answered(cluster, "exports", "reload")
        session = cluster.session_of("ws2")
        ask(cluster, "evict", str(session))
        until(lambda: cluster.session_of("ws2") not in (None, session))


def test_the_log_is_more_or_less_at_once(cluster):
    levels = {each["level"] for each in answered(cluster, "log-level", "debug")["controllers"]}
    assert levels == {"debug"}
    assert ask(cluster, "log-level", "loud").returncode == 2
    levels = {each["level"] for each in answered(cluster, "log-level", "info")["controllers"]}
    assert levels == {"info"}


def test_a_support_bundle_has_what_there_is_to_see(cluster, tmp_path):
    path = tmp_path / "bundle.tar.gz"
    told = answered(cluster, "support-bundle", str(path))
    with tarfile.open(path) as bundle:
        names = {os.path.basename(name) for name in bundle.getnames()}
        shown = json.load(bundle.extractfile("support/show.json"))
    assert set(told["contents"]) <= names
    assert {"who.txt", "host-doctor.txt", "host-journal.txt", "host-config.txt"} <= names
    json_schema.check("show", shown)
    assert os.stat(path).st_mode & 0o077 == 0
