"""What a cluster consists of: how many hosts, which pools on which LUNs, which volume.

A spec comes from `lab up`'s options or from a TOML or JSON file with the same names (and more), and
is kept in DIR/lab.json. This is the one place that knows the defaults.
"""
import dataclasses
import json
import os
import re
import shutil
import tomllib

from process import LabError

PROGRAMS = ("reel-label", "mkfs.reelfs", "reel-mdcd", "mount.reelfs", "fsck.reelfs", "reeladm")
MAX_PORTALS = 8  # of one iscsi:// URL
KERNELS = ("6.1", "6.12")  # of machines: Debian 12 has both
DEFAULT_LUNS = "meta=1x8G,data=4x8G"
# An emulated controller waits for its processor, and for reservations of which each takes a second.
MACHINES_SEAT_MS = 20000
MACHINE_LUNS_MOST = 24
MACHINES_LUNS = "meta=1x1G,data=2x4G"
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_FLAGS = {"metadata", "data", "exclusive"}


def parse_size(text):
    match = re.fullmatch(r"(\d+)\s*([KMGT]?)(i?B)?", str(text), re.IGNORECASE)
    if not match:
        raise LabError(f"'{text}' is not a size (examples: 8G, 512MiB)")
    return int(match[1]) * _UNITS[match[2].upper()]


@dataclasses.dataclass
class PoolSpec:
    name: str
    luns: int
    size_bytes: int
    flags: list = dataclasses.field(default_factory=list)
    affinities: list = dataclasses.field(default_factory=list)
    stripe_breadth: str = ""

    def lun_names(self):
        return [f"{self.name}{i}" for i in range(1, self.luns + 1)]

    def check(self):
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,60}", self.name):
            raise LabError(f"pool '{self.name}': a name is letters, digits, '.', '_' and '-'")
        if not 1 <= self.luns <= 256:
            raise LabError(f"pool {self.name}: {self.luns} LUNs; a pool has 1 to 256")
        if not self.flags or not set(self.flags) <= _FLAGS:
            raise LabError(f"pool {self.name}: flags {'+'.join(self.flags)}; "
                           f"known: {', '.join(sorted(_FLAGS))}")


@dataclasses.dataclass
class Spec:
    bin: str
    pools: list
    mdcs: int = 2
    clients: int = 2
    volume: str = "reel"
    block_size: str = "16KiB"
    breadth: str = "256KiB"
    strategy: str = "round"
    session_lease_ms: int = 10000
    seat_ms: int = 1500
    names: str = "delegated"  # or "durable", "early": as in mdc.toml
    small_file_bytes: int | None = None  # likewise; None: as mkfs.reelfs has made the volume
    tls: bool = False
    web: bool = False  # all serve metrics (with TLS, controllers of a LAN do so anyway)
    lun_backend: str = "image"  # or "iscsi": the images behind a target
    allocated: bool = False  # the images are written once; else they are sparse
    portals: int = 1  # by which the target is reached
    chap: bool = False  # it asks for a secret, which stands in the LUNs' URLs
    lun_delays: bool = False  # each LUN of the target can be slowed
    # or "netns": each host in a network namespace of its own; or "vm": each is a machine
    backend: str = "process"
    kernels: str = "6.1"  # of machines: the workstations have them in turn
    packages: str = ""  # a directory: what machines install; else it is made of `bin`
    bare: bool = False  # machines as they are before anything of ReelFS is installed
    # Besides those that find the volume: of every client, or a list, one for each in turn.
    mount_options: str | list = ""

    def check(self):
        if not 1 <= self.mdcs <= 8:
            raise LabError(f"--mdcs {self.mdcs}: 1 to 8, of which one is active")
        if self.names not in ("durable", "delegated", "early"):
            raise LabError(f"--names {self.names}: durable, delegated or early")
        if self.lun_backend not in ("image", "iscsi"):
            raise LabError(f"--lun-backend {self.lun_backend}: image or iscsi")
        if self.lun_backend == "iscsi" and not (installed_program("tgtd") and
                                                installed_program("tgtadm")):
            raise LabError("--lun-backend iscsi: no tgtd here; install Debian's package tgt")
        if self.backend not in ("process", "netns", "vm"):
            raise LabError(f"--backend {self.backend}: process, netns or vm")
        if self.backend == "vm":
            self._check_machines()
        elif self.bare:
            raise LabError("--bare: of machines; with --backend vm")
        if self.lun_delays and self.lun_backend != "iscsi":
            raise LabError("--lun-delays: takes --lun-backend iscsi")
        if not 1 <= self.portals <= MAX_PORTALS:
            raise LabError(f"--portals {self.portals}: 1 to {MAX_PORTALS}")
        if self.portals > 1 and (self.lun_backend != "iscsi" or self.lun_delays):
            raise LabError("--portals: takes --lun-backend iscsi, without --lun-delays")
        if self.chap and self.lun_backend != "iscsi":
            raise LabError("chap: takes lun_backend iscsi")
        if not 0 <= self.clients <= 64:
            raise LabError(f"--clients {self.clients}: 0 to 64")
        if isinstance(self.mount_options, list) and len(self.mount_options) != self.clients:
            raise LabError(f"mount_options: {len(self.mount_options)} for {self.clients} clients")
        for pool in self.pools:
            pool.check()
        if len({pool.name for pool in self.pools}) != len(self.pools):
            raise LabError("two pools have one name")

    def _check_machines(self):
        if self.lun_backend != "image" or self.lun_delays:
            raise LabError("--backend vm: its LUNs are LIO's, on a host of their own; without "
                           "--lun-backend and --lun-delays")
        unknown = set(self.kernels.split(",")) - set(KERNELS)
        if unknown:
            raise LabError(f"--kernels {self.kernels}: a list of {', '.join(KERNELS)}")
        luns = sum(pool.luns for pool in self.pools)
        if luns > MACHINE_LUNS_MOST:
            raise LabError(f"--luns: {luns}; the SAN's machine has {MACHINE_LUNS_MOST} at most")
        if self.packages and not os.path.isdir(self.packages):
            raise LabError(f"--packages {self.packages}: no such directory")

    def mount_options_of(self, client):
        """Of ws1, ws2, …"""
        if isinstance(self.mount_options, str):
            return self.mount_options
        return self.mount_options[int(client.removeprefix("ws")) - 1]

    def program(self, name):
        return os.path.join(self.bin, name) if self.bin else installed_program(name)

    def to_json(self):
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(fields):
        return Spec(**{**fields, "pools": [PoolSpec(**pool) for pool in fields["pools"]]})


def installed_program(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin")


def parse_luns(text):
    """meta=1x8G,data=4x8G:data+exclusive → pools. Without flags, `meta` is for metadata and the
    others for data; a single pool is for both."""
    pools = []
    for part in text.split(","):
        match = re.fullmatch(r"([^=]+)=(\d+)x([^:]+)(?::(.+))?", part.strip())
        if not match:
            raise LabError(f"--luns: '{part}' is not POOL=COUNTxSIZE[:FLAG+FLAG] "
                           f"(example: {DEFAULT_LUNS})")
        flags = match[4].split("+") if match[4] else []
        pools.append(PoolSpec(match[1], int(match[2]), parse_size(match[3]), flags))
    return _with_default_flags(pools)


def _with_default_flags(pools):
    for pool in pools:
        if not pool.flags:
            pool.flags = (["metadata", "data"] if len(pools) == 1 else
                          ["metadata"] if pool.name.startswith("meta") else ["data"])
    return pools


def _read_config(path):
    try:
        with open(path, "rb") as file:
            text = file.read()
        fields = json.loads(text) if path.endswith(".json") else tomllib.loads(text.decode())
    except (OSError, ValueError) as error:
        raise LabError(f"--config {path}: {error}")
    known = {field.name for field in dataclasses.fields(Spec)} - {"pools"} | {"luns", "pool"}
    unknown = set(fields) - known
    if unknown:
        raise LabError(f"--config {path}: unknown: {', '.join(sorted(unknown))} "
                       f"(known: {', '.join(sorted(known))})")
    if "pool" in fields:  # [[pool]] name, luns, size, flags, affinities, stripe_breadth
        try:
            fields["pools"] = _with_default_flags(
                [PoolSpec(size_bytes=parse_size(pool.pop("size")), **pool)
                 for pool in fields.pop("pool")])
        except (KeyError, TypeError) as error:
            raise LabError(f"--config {path}: [[pool]] has name, luns, size, and if wished flags, "
                           f"affinities, stripe_breadth ({error})")
    return fields


def _find_bin(wanted):
    """The directory of the programs; empty when they are installed."""
    if wanted:
        candidates = [os.path.abspath(wanted)]
    else:
        checkout = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
        candidates = [os.path.join(checkout, "build", "release", "bin")]
    for candidate in candidates:
        if os.access(os.path.join(candidate, "mount.reelfs"), os.X_OK):
            return candidate
    if not wanted and installed_program("mount.reelfs"):
        return ""
    raise LabError(f"no ReelFS programs in {candidates[0]}: build them "
                   "(cmake --preset release && ninja -C build/release) or say --bin DIR")


def read_spec(arguments, old):
    """The spec that the options ask for, on top of `old` (the existing cluster's, or None)."""
    fields = old.to_json() if old else {}
    if arguments.config:
        fields.update(_read_config(arguments.config))
    for option in ("mdcs", "clients", "luns", "block_size", "breadth", "tls", "lun_backend",
                   "portals", "allocated", "lun_delays", "backend", "seat_ms", "session_lease_ms",
                   "names", "small_file_bytes", "web", "mount_options", "kernels", "packages",
                   "bare"):
        if getattr(arguments, option) is not None:
            fields[option] = getattr(arguments, option)
    if fields.get("backend") == "vm":
        fields.setdefault("seat_ms", MACHINES_SEAT_MS)
    if fields.get("packages"):
        fields["packages"] = os.path.abspath(fields["packages"])
    if fields.get("backend") in ("netns", "vm"):
        fields.setdefault("tls", True)  # a controller serves a LAN in no other way
    luns = fields.pop("luns", None)
    if luns or "pools" not in fields:
        fields["pools"] = parse_luns(
            luns or (MACHINES_LUNS if fields.get("backend") == "vm" else DEFAULT_LUNS))
    fields["pools"] = [pool if isinstance(pool, PoolSpec) else PoolSpec(**pool)
                       for pool in fields["pools"]]
    if arguments.bin or not old:
        fields["bin"] = _find_bin(arguments.bin or fields.get("bin"))
    spec = Spec(**fields)
    spec.check()
    for program in PROGRAMS:
        path = spec.program(program)
        if not path or not os.access(path, os.X_OK):
            raise LabError(f"{program}: not found in {spec.bin or 'the installed programs'}; "
                           "build it, or say --bin DIR")
    return spec
