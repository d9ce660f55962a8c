#!/usr/bin/env python3
"""The rules of the tree that no compiler checks. Prints each breach as FILE:LINE: what; exit 1.

Layers, libraries behind their adapters, every test built, and the plain style of a line. Where a
rule has an exception, the exception stands here, with its reason.
"""
import collections
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# What each folder may include from. tools and tests see all.
LAYERS = {
    "volume": {"volume"},
    "proto": {"volume", "proto"},
    "mdc": {"volume", "proto", "mdc"},
    "client": {"volume", "proto", "client"},
}
FOLDERS = ("volume", "proto", "mdc", "client", "tools", "tests", "deploy")

# The rooms of each folder, from the ground up: a room includes from itself and from those below it.
# What is only there for tests (testing/, tests/, *_test.cc) sees all of its folder.
ROOMS = {
    "volume": ("base", "lun", "scsi", "iscsi", "format", "bandwidth", "join"),
    "proto": ("", "tls", "web", "grpc"),
    "client": ("base", "session", "luns", "names", "locks", "inode", "file", "buffers", "tokens",
               "data", "ahead", "vfs", "fuse", "web", "mount"),
    "mdc": ("base", "metafs", "metadb", "space", "tables", "sessions", "qos", "ops", "moves",
            "core", "check", "store", "backup", "repair", "seat", "fence", "map", "inspect",
            "serve", "rpc", "web", "daemon"),
    "tools": ("lib", "mkfs", "fsck", "label", "pki", "admin", "config", "doctor", "setup",
              "commands", "shell", "reeladm", "bench"),
}
FOR_TESTS = re.compile(r".*/(testing|tests)/.*|.*_test\.cc")
MAX_FILES_OF_A_ROOM = 30
LARGER_ROOMS = {"mdc/ops", "tests/e2e", "tests/sim"}

# Header of a library → the only files that may include it (as patterns from the top).
ADAPTERS = {
    "FUSE": (r"(fuse|fuse3|linux/fuse)[/.].*|fuse_lowlevel\.h",
             r"client/fuse/.*|client/mount/main\.cc|tests/bench/empty_fuse\.cc"),
    "gRPC": (r"grpc(pp|\+\+)?/.*|proto/\w+\.grpc\.pb\.h",
             r"proto/grpc/.*|client/session/grpc_stream\.cc|mdc/rpc/.*|mdc/testing/grpc_\w+\.h|"
             r"tools/admin/admin\w*\.(h|cc)|tests/(bench/\w+|tls_test)\.cc"),
    "RocksDB": (r"rocksdb/.*", r"mdc/(metafs|metadb|store|repair)/.*|mdc/testing/rocks_\w+\.h|"
                r"tests/sim/meta_store\.cc"),
    "OpenSSL": (r"openssl/.*", r"proto/tls/.*|tools/pki/\w+\.(h|cc)"),
    "cpp-httplib": (r"httplib\.h", r"proto/web/https_server(_test)?\.cc"),
    "prometheus-cpp": (r"prometheus/.*", r"proto/web/metric_writer\.(h|cc)"),
    "toml++": (r"toml\+\+/.*", r"volume/base/toml_reader\.cc"),
    "io_uring": (r"liburing.*", r"volume/lun/uring(_test)?\.(h|cc)|"
                 r"client/fuse/uring/uring_ring\.(h|cc)"),
    "libiscsi": (r"iscsi/.*", r"volume/iscsi/iscsi_(connection|login)\.cc"),
}

MAX_LINES = 500
LONGER = {}  # file: why it is one piece
MAX_FIELDS = 25
# Class, as FILE:NAME → why it has more fields.
MORE_FIELDS = {
    "client/mount/mount_options.h:MountOptions": "a flat list: one field an option of mount",
    "client/testing/fake_mdc.h:FakeMdc": "a fake: what a test sets and looks at, with no invariant",
}
MAX_COLUMNS = 100
WITH_TABS = {"deploy/packaging/debian/rules"}  # make(1) wants them
# A sleep in a test stands on a line that says why, with this mark.
SLEEP_MARK = "tidy: sleep"
SLEEP = re.compile(r"\b(sleep_for|sleep_until|usleep|nanosleep|SleepFor)\s*\(|\btime\.sleep\(")
UNFINISHED = re.compile(r"\b(" + "TO" + "DO|FIX" + r"ME)\b")

breaches = []


def breach(path, line, what):
    breaches.append(f"{path}:{line}: {what}")


def tracked_files():
    """What git knows or would add: a file counts before its first commit."""
    listing = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=TOP,
                             capture_output=True)
    if listing.returncode == 0:
        names = listing.stdout.decode().split("\0")
    else:  # an unpacked archive
        names = [os.path.relpath(os.path.join(root, name), TOP)
                 for root, folders, files in os.walk(TOP)
                 if not os.path.relpath(root, TOP).startswith(("build", ".git")) for name in files]
    return sorted(name for name in names if name and os.path.isfile(os.path.join(TOP, name)))


def read(path):
    with open(os.path.join(TOP, path), errors="replace") as file:
        return file.read()


def room_of(path):
    """Which floor of its folder a file is on; None: on none."""
    folder, *rest = path.split("/")
    room = rest[0] if len(rest) > 1 else ""
    rooms = ROOMS.get(folder, ())
    return rooms.index(room) if room in rooms else None


def check_room(path, header, number):
    """Generated headers lie in no room, and are everybody's."""
    if path.split("/")[0] != header.split("/")[0] or FOR_TESTS.fullmatch(path):
        return
    here, there = room_of(path), room_of(header)
    if FOR_TESTS.fullmatch(header):
        breach(path, number, f"{header} is for tests")
    elif here is None or there is None:
        breach(path, number, "lies in no room of tests/tidy.py, or includes what does not")
    elif there > here:
        breach(path, number, f"{header} lies in a room above this one")


def check_sizes_of_rooms(files):
    sources = collections.Counter(os.path.dirname(path) for path in files
                                  if path.endswith((".h", ".cc", ".py")))
    for room, count in sources.items():
        if count > MAX_FILES_OF_A_ROOM and room not in LARGER_ROOMS:
            breach(room, 0, f"{count} source files (at most {MAX_FILES_OF_A_ROOM} in a room)")


def check_includes(path, lines):
    folder = path.split("/")[0]
    for number, line in enumerate(lines, 1):
        match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
        if not match:
            continue
        header = match[1]
        target = header.split("/")[0]
        if folder in LAYERS and target in FOLDERS and target not in LAYERS[folder]:
            breach(path, number, f"{folder}/ must not include {header}")
        if folder in ROOMS and "/" in header:
            check_room(path, header, number)
        for library, (headers, files) in ADAPTERS.items():
            if re.fullmatch(headers, header) and not re.fullmatch(files, path):
                breach(path, number, f"{library} belongs behind its adapter, not here ({header})")


NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'
                      r"(?<!\w)'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.S | re.M)
CLASS = re.compile(r"(?<!enum )\b(?:class|struct|union)\b(?:\s+(?:ABSL_\w+|alignas|\[\[\w+\]\])"
                   r"(?:\([^()]*\))?)*\s*([\w:]*)(?:<[^{};()]*>)?(?:\s+final)?"
                   r"(?:\s*:[^{};()=]*)?\s*\{")
NO_FIELD = re.compile(r"(?:using|typedef|friend|static|template|enum|class|struct|union|operator|"
                      r"explicit|virtual|public|private|protected)\b")
ANNOTATION = re.compile(r"\b(?:ABSL_\w+|alignas)\s*\((?:[^()]|\([^()]*\))*\)|\[\[[^\]]*\]\]")


def without(pattern, text):
    """Takes away what matches until nothing does: from within outwards."""
    while (less := pattern.sub("", text)) != text:
        text = less
    return text


def fields_of(statement):
    """How many data members a statement of a class declares; what stood in braces is `{}`."""
    text = ANNOTATION.sub("", statement)
    text = re.sub(r"^(\s*(?:public|private|protected)\s*:(?!:))+", "", text).strip()
    if text.startswith("struct {}") or text.startswith("union {}"):
        return 1
    if not text or NO_FIELD.match(text) or re.search(r"\boperator\b", text):
        return 0
    text = without(re.compile(r"<[^<>;]*>"), text.replace("->", "").replace("<<", ""))
    declared = re.sub(r"=[^,]*\([^()]*\)", "=", text)  # an initialiser that calls
    if "(" in re.split(r"[={]", declared)[0] or len(re.findall(r"\w+", declared)) < 2:
        return 0
    return 1 + without(re.compile(r"\([^()]*\)"), declared).count(",")


def count_fields(text, begin):
    """Of the class whose body begins there. Bodies of functions and nested classes are left out."""
    fields, depth, parens, statement = 0, 0, 0, ""
    for char in text[begin:]:
        if char == "}":
            depth -= 1
            if depth < 0:
                break
            head = ANNOTATION.sub("", statement[:-1])
            plain = without(re.compile(r"<[^<>;]*>"), head)
            is_body = "(" in plain and "=" not in plain.split("(")[0] or "operator" in plain
            if depth == 0 and parens == 0:
                statement = "" if is_body else statement + "}"
        elif char == "{":
            if depth == 0:
                statement += "{"
            depth += 1
        elif depth == 0:
            parens += (char == "(") - (char == ")")
            if char == ";" and parens == 0:
                fields += fields_of(statement)
                statement = ""
            else:
                statement += char
    return fields


def check_fields(path, text):
    """A class with many fields holds several invariants: each is to have an owner of its own."""
    blank = NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    for match in CLASS.finditer(blank):
        count = count_fields(blank, match.end())
        exempt = f"{path}:{match[1]}" in MORE_FIELDS
        if count > MAX_FIELDS and not exempt:
            breach(path, blank.count("\n", 0, match.start()) + 1,
                   f"{match[1]} has {count} fields (at most {MAX_FIELDS} in a class)")
        elif count <= MAX_FIELDS and exempt:
            breach(path, 1, f"{match[1]} needs its line in MORE_FIELDS of tests/tidy.py no more")


def check_lines(path, lines):
    in_code = path.endswith((".h", ".cc", ".proto", ".py", ".sh", ".cmake"))
    is_test = path.startswith("tests/") or "_test." in path
    for number, line in enumerate(lines, 1):
        if "\t" in line and path not in WITH_TABS:
            breach(path, number, "tab")
        if line != line.rstrip():
            breach(path, number, "space at the end of the line")
        if in_code and len(line) > MAX_COLUMNS:
            breach(path, number, f"{len(line)} columns (at most {MAX_COLUMNS})")
        if UNFINISHED.search(line):
            breach(path, number, "unfinished work: do it, or file an issue")
        if is_test and path != "tests/tidy.py" and SLEEP.search(line) and SLEEP_MARK not in line:
            breach(path, number, "a sleep in a test: wait for the event (or mark it "
                   f"'{SLEEP_MARK}' with the reason)")


def check_file(path):
    text = read(path)
    lines = text.split("\n")
    if text and not text.endswith("\n"):
        breach(path, len(lines), "no newline at the end")
    if path.endswith((".h", ".cc")):
        check_includes(path, lines)
        if path.split("/")[0] in ("volume", "proto", "mdc", "client", "tools"):
            check_fields(path, text)
    if path.endswith(".h"):
        if not lines[0].startswith("//"):
            breach(path, 1, "does not open with a comment that says what it is")
        if "#pragma once" not in lines:
            breach(path, 1, "no #pragma once")
    check_lines(path, lines)
    if path.endswith((".h", ".cc", ".py", ".proto")) and len(lines) - 1 > MAX_LINES:
        if path not in LONGER:
            breach(path, len(lines) - 1, f"longer than {MAX_LINES} lines: split it, or say why in "
                   "tests/tidy.py")


def check_sources_are_built(files):
    """Every source is named by the nearest CMakeLists.txt above it, or by cmake/; fuzz targets go
    by pattern."""
    modules = "".join(read(path) for path in files if path.endswith(".cmake"))
    for path in files:
        if not path.endswith(".cc"):
            continue
        folder = os.path.dirname(path)
        if folder == "tests/fuzz" and path.endswith("_fuzz.cc"):
            continue
        while folder and not os.path.exists(os.path.join(TOP, folder, "CMakeLists.txt")):
            folder = os.path.dirname(folder)
        cmake = os.path.join(folder, "CMakeLists.txt")
        name = os.path.relpath(path, folder)
        if path not in modules and not re.search(rf"(?<![\w/]){re.escape(name)}(?!\w)",
                                                 read(cmake)):
            breach(path, 1, f"no target builds it: {cmake} does not name {name}")


def check_mutations_apply():
    """A promise that can no longer be taken away is not looked for any more either."""
    folder = os.path.join("tests", "mutations")
    for name in sorted(os.listdir(os.path.join(TOP, folder))):
        path = os.path.join(folder, name)
        if not name.endswith(".patch"):
            continue
        done = subprocess.run(["patch", "--dry-run", "--silent", "-p1", "-i", path], cwd=TOP,
                              capture_output=True, check=False)
        if done.returncode != 0:
            breach(path, 1, "does not apply to the tree any more")


def main():
    files = [path for path in tracked_files()
             if path.endswith((".h", ".cc", ".proto", ".py", ".cmake", ".txt", ".sh"))
             or "." not in os.path.basename(path) and path.split("/")[0] in ("deploy", "tests")]
    files = [path for path in files if not path.startswith("tests/fuzz/corpus/")]
    for path in files:
        check_file(path)
    check_sizes_of_rooms(files)
    check_sources_are_built(files)
    check_mutations_apply()
    print("\n".join(breaches) if breaches else f"tidy: {len(files)} files, nothing to say")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
