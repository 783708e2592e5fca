#!/usr/bin/env python3
"""The chart on a cluster of `tfctl up`: pods are processes, webhooks are called by URL.

Usage: process_node_test.py BIN_FOLDER [unittest's arguments]
"""
import os
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "standalone")]
from cluster import Cluster  # noqa: E402  pylint: disable=wrong-import-position
from install import Installation, check_lifecycle  # noqa: E402  pylint: disable=wrong-import-position
from served_chart import ServedChart, built, helm_program  # noqa: E402  pylint: disable=wrong-import-position

BIN = os.path.abspath(sys.argv.pop(1))


class ProcessNodes(unittest.TestCase):
    def test_lifecycle(self):
        with Cluster(BIN) as cluster, ServedChart() as chart:
            cluster.up("--nodes", "2", "--gpus-per-node", "A100-80G:1", "--image", f"alertmanager={os.path.dirname(built('alertmanager'))}")
            simulated = os.path.join(os.path.dirname(BIN), "lib/sim")
            installation = Installation(helm_program(), chart, cluster.env(), [
                "-f", chart.url + "/values-process-node.yaml", "--set",
                f"cluster.pool.hypervisorEnv[0].name=TF_NVML_LIB_PATH,cluster.pool.hypervisorEnv[0].value={simulated}"])
            check_lifecycle(self, installation, cards=2)


if __name__ == "__main__":
    unittest.main()
