"""The stories of locks, and of the waits for them, by way of /dev/fuse: see test_other_fuse.py."""
import pytest

from fuse_way import offers_uring
from test_locks import *  # noqa: F401, F403

CLUSTER = {"clients": 4, "session_lease_ms": 3000, "mount_options": "uring=off"}
pytestmark = pytest.mark.skipif(not offers_uring(), reason="all others go by /dev/fuse here")
