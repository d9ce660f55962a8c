"""Two controllers on image files: clocks alone keep them apart."""
import failover

CLUSTER = {"mdcs": 2, "seat_ms": 1500, "luns": "meta=1x1G,data=2x1G"}


def test_a_killed_controller_is_replaced(cluster):
    failover.a_killed_controller_is_replaced(cluster)


def test_a_paused_controller_is_replaced_and_ends_when_it_wakes(cluster):
    failover.a_paused_controller_is_replaced_and_ends_when_it_wakes(cluster)


def test_a_handover_disturbs_no_program(cluster):
    failover.a_handover_disturbs_no_program(cluster)


def test_two_controllers_die_one_after_the_other(cluster, room):
    failover.two_controllers_die_one_after_the_other(cluster, room)


def test_all_controllers_die_and_one_comes_back(cluster, room):
    failover.all_controllers_die_and_one_comes_back(cluster, room)


def test_a_standby_names_the_active_controller(cluster):
    failover.a_standby_names_the_active_controller(cluster)


def test_a_fresh_metadata_pool_is_not_shown_as_full(cluster):
    shown = cluster.reeladm("show")
    assert 0 < shown["store_free_bytes"] < shown["store_bytes"]
    for pool in shown["pools"]:
        if pool["flags"] == ["metadata"]:
            assert pool["free_bytes"] > pool["total_bytes"] // 2, pool


def test_show_says_what_keeps_two_controllers_apart(cluster):
    shown = cluster.reeladm("show")
    assert "arbitration block alone" in shown["arbitration"]
    assert "lease alone" in shown["fencing"]
