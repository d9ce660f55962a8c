"""A core of the stories by way of io_uring, where the kernel offers FUSE that way; all others go by
/dev/fuse."""
import pytest

from fuse_way import offers_uring
from test_data import *  # noqa: F401, F403
from test_names import *  # noqa: F401, F403

CLUSTER = {"mount_options": "uring=on"}
pytestmark = pytest.mark.skipif(not offers_uring(), reason="the kernel offers no FUSE by io_uring")


def test_the_log_says_which(cluster):
    assert "FUSE by io_uring" in cluster.log("ws1")
