"""A core of the stories by way of /dev/fuse, where the kernel offers FUSE over io_uring: all others
go by that there, and by /dev/fuse everywhere else."""
import pytest

from cluster import until
from fuse_way import offers_uring
from test_data import *  # noqa: F401, F403
from test_names import *  # noqa: F401, F403

CLUSTER = {"mount_options": "uring=off"}
pytestmark = pytest.mark.skipif(not offers_uring(), reason="all others go by /dev/fuse here")


def test_log_and_controller_say_which(cluster):
    assert "FUSE by /dev/fuse" in cluster.log("ws1")
    # (A renewal brings it.)
    until(lambda: {session["fuse"] for session in cluster.reeladm("who")["sessions"]}
          == {"/dev/fuse"})
