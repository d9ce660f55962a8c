"""Everything that moves a volume's data, one after the other, while four hosts work and some of
them and of the controllers die: the lab's drill, once."""
import failover
import pytest

CLUSTER = {"mdcs": 2, "clients": 4, "seat_ms": 1500, "session_lease_ms": 5000,
           "luns": "meta=1x1G,data=2x1536M"}
STEPS = ["lun grow", "lun add", "rebalance", "drain", "rebalance again", "lun remove",
         "lun replace", "restripe breadth", "restripe block", "defrag", "compact"]


@pytest.mark.seconds(900)
def test_data_move_in_all_ways_under_load(cluster):
    told = failover.drill(cluster, "rearrange", seconds=800)
    steps = {step["step"]: step for step in told["steps"]}
    assert list(steps) == STEPS
    for name in ("rebalance", "drain", "lun remove", "lun replace", "restripe breadth"):
        assert steps[name]["moved_bytes"] > 0, steps[name]
    words = [event["what"] for event in told["events"]]
    assert sum("which is active, is killed" in line for line in words) == 2
    assert "ws4 is killed" in words
