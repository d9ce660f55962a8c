"""reel-bench itself, on directories and image files: what it prints is as its schema says, and its
exit status is as its page says. BIN: the directory of the programs."""
import html.parser
import json
import os
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "e2e"))
import json_schema  # noqa: E402

BIN = os.environ["BIN"]
SCHEMA = json_schema.load("reel-bench.json")
HOSTILE = "<script>alert(1)<!--script> & \"'"
FRAMES = ("--format", "10000", "--seconds", "0.2", "--cached", "--quiet")
SWEEP = ("--block-sizes", "16KiB,64KiB", "--stripe-breadths", "64KiB,1MiB", "--io-sizes", "256KiB",
         "--seconds", "0.002", "--area", "40MiB", "--quiet", "--depths", "1,4")


def run(program, *words, status=0, stdout=subprocess.PIPE):
    done = subprocess.run([os.path.join(BIN, program), *map(str, words)], text=True, check=False,
                          stdout=stdout, stderr=subprocess.PIPE, timeout=120)
    assert done.returncode == status, (words, done.stdout, done.stderr)
    return done


def bench(command, *words, status=0):
    """The JSON of a command, checked."""
    document = json.loads(run("reel-bench", command, "--json", *words, status=status).stdout)
    json_schema.check(command, document, SCHEMA)
    for row in document.get("rows", []):
        for side in row.get("sides", {}).values():
            json_schema.check("spread", side["rate"], SCHEMA)
    return document


class Page(html.parser.HTMLParser):
    """What a browser would find in a report."""

    def __init__(self, path):
        super().__init__()
        self.tags, self.text = set(), ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        for name, value in attrs:
            assert not name.startswith("on") and name not in ("src", "href", "style"), (tag, name)
            assert "://" not in (value or ""), (tag, name, value)

    def handle_data(self, data):
        self.text += data


def make_images(path, count=3, mib=64):
    images = [path / f"lun{number}.img" for number in range(count)]
    for image in images:
        image.touch()
        os.truncate(image, mib << 20)
    return images


@pytest.mark.parametrize("pattern", ("forward", "reverse", "pingpong", "scrub", "growing"))
def test_every_pattern(tmp_path, pattern):
    document = bench("frames", *FRAMES, "--fps", 100, "--streams", 2, "--pattern", pattern,
                     tmp_path)
    assert len(document["streams"]) == (4 if pattern == "growing" else 2)
    for stream in document["streams"]:
        assert stream["frames"] == 20
        assert stream["on_time"] + stream["late"] + stream["dropped"] == 20
    assert not os.listdir(tmp_path)


def test_exit_status_says_whether_the_rate_was_reached(tmp_path):
    assert bench("frames", *FRAMES, "--fps", 100, "--require", 1, tmp_path)["enough"]
    missed = bench("frames", *FRAMES, "--fps", "50", "--require", 60, tmp_path, status=3)
    assert not missed["enough"] and "60.00 are required" in missed["shortfalls"][0]
    # No disk writes and syncs such frames at such a rate.
    bench("frames", "--format", "8MiB", "--fps", "10000", "--seconds", "0.1", "--write", "--sync",
          "--cached", "--quiet", "--late", 0, tmp_path, status=3)


def test_a_second_path_reads_what_the_first_wrote(tmp_path):
    real, other = tmp_path / "real", tmp_path / "other"
    real.mkdir()
    other.symlink_to(real)
    document = bench("frames", *FRAMES, "--pattern", "growing", "--fps", 100, "--read-through",
                     other, real)
    assert {s["directory"] for s in document["streams"]} == {str(real), str(other)}


def test_wrong_arguments(tmp_path):
    for words in (("--format", "4k-tiff"), ("--fps", "0"), ("--fps", "x"), ("--pattern", "x"),
                  ("--pattern", "reverse", "--write"), ("--io-size", "1000"),
                  ("--start-at", "25:00")):
        run("reel-bench", "frames", *words, tmp_path, status=2)
    run("reel-bench", "frames", tmp_path / "nowhere", status=1)
    run("reel-bench", "sweep", "--depths", "0", tmp_path / "nowhere", status=2)
    run("reel-bench", "compare", "/dev/null", "/dev/null", status=2)


def test_hostile_names_do_not_leave_their_place(tmp_path):
    report = tmp_path / "report.html"
    plain = tmp_path / "plain"
    plain.mkdir()
    run("reel-bench", "frames", *FRAMES, "--html", report, f"{HOSTILE}={plain}")
    page = Page(report)
    assert "script" not in page.tags and "svg" in page.tags
    assert HOSTILE in page.text
    for escape in ("\x1b", "\x00"):
        assert escape not in page.text


def test_meta_of_several_clients(tmp_path):
    clients = [tmp_path / name for name in "abc"]
    for client in clients:
        client.mkdir()
    report = tmp_path / "report.html"
    document = bench("meta", "--files", 5, "--threads", 2, "--runs", 1, "--quiet", "--html", report,
                     "all=" + ",".join(map(str, clients)), f"one={clients[0]}")
    assert document["clients"] == [3, 1]
    assert "all (3 clients)" in Page(report).text
    late = run("reel-bench", "meta", "--files", 5, "--start-at", "@1000", clients[0], status=1)
    assert "has passed" in late.stderr


def test_io_and_qos(tmp_path):
    small = ("--size", "64MiB", "--seconds", "0.01", "--quiet")
    document = bench("io", *small, "--runs", 1, f"a={tmp_path}", f"b={tmp_path}")
    assert document["rows"] and document["sides"] == ["a", "b"]
    bench("qos", *small, tmp_path)


def test_compare(tmp_path):
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    document = bench("frames", *FRAMES, "--fps", 100, tmp_path)
    before.write_text(json.dumps(document))
    same = bench("compare", before, before)
    assert not same["slower"] and all(row["verdict"] == "equal" for row in same["rows"])
    document["streams"][0]["fps"] *= 0.5
    after.write_text(json.dumps(document))
    report = tmp_path / "report.html"
    slower = bench("compare", "--html", report, before, after, status=3)
    assert slower["rows"][0]["verdict"] == "slower" and "svg" in Page(report).tags
    assert not bench("compare", "--tolerance", 60, before, after)["slower"]


def test_mkfs_makes_what_a_sweep_recommends(tmp_path):
    images = make_images(tmp_path)
    toml, report = tmp_path / "volume.toml", tmp_path / "report.html"
    document = bench("sweep", *SWEEP, "--toml", toml, "--html", report, *images)
    assert document["toml"] == toml.read_text() and len(document["advice"]) == 3
    assert {"svg", "pre"} <= Page(report).tags
    for image in images:
        assert not image.read_bytes().strip(b"\0"), "blank as before"
    made = json.loads(run("mkfs.reelfs", "--config", toml, "--json").stdout)
    both = document["advice"][2]
    assert made["block_bytes"] == both["block_size"]["bytes"], made
    # What is a volume now is left alone.
    content = images[1].read_bytes()
    refused = run("reel-bench", "sweep", *SWEEP, images[1], status=1)
    assert "holds the label of LUN" in refused.stderr
    assert images[1].read_bytes() == content


def test_a_swept_lun_can_be_labelled(tmp_path):
    image = make_images(tmp_path, 1)[0]
    document = bench("sweep", *SWEEP, "--metadata", "meta1", "--metadata", "meta2", image)
    assert '["meta1", "meta2"]' in document["toml"]
    run("reel-label", "write", "video1", image)
    run("reel-bench", "sweep", *SWEEP, image, status=1)


def test_a_sweep_that_was_killed_leaves_luns_that_can_be_labelled(tmp_path):
    image = make_images(tmp_path, 1)[0]
    words = [os.path.join(BIN, "reel-bench"), "sweep", "--runs", "1000",
             *(word for word in SWEEP if word != "--quiet"), str(image)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as sweep:
        for line in sweep.stderr:
            if "fresh" in line:  # it is measuring
                break
        sweep.kill()
    content = image.read_bytes()
    assert content.strip(b"\0"), "it wrote"
    assert not content[:1 << 20].strip(b"\0") and not content[-1 << 20:].strip(b"\0")
    run("reel-label", "write", "video1", image)
