#!/usr/bin/env python3
"""What a user who is not root can have: clusters of simulated nodes, several at once."""
import os
import signal
import threading
import unittest

from support import ClusterTest, Machine, condition, give_up_root, rig


class WithoutRootTest(ClusterTest):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        give_up_root()
        super().setUpClass()

    def test_a_true_node_needs_root_and_says_so_in_one_line(self):
        said = self.tool("up", "--profile", "node", succeed=False)
        self.assertEqual(said, "cluster: a true node needs root; without root: tools/cluster up --profile crowd\n")

    def test_several_at_once(self):
        before = Machine()
        failures = []

        def start(name):
            try:
                self.up(name, "--profile", "crowd", "--nodes", "3")
            except AssertionError as error:
                failures.append(error)
        # Two starts of one name and one of another, all at the same time.
        threads = [threading.Thread(target=start, args=(name,)) for name in ("one", "two", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        one, two = rig.Cluster("one"), rig.Cluster("two")
        description = one.description()
        other = two.description()
        ports = {description.api_port, *description.ports.values()}
        self.assertEqual(len(ports), 5)
        self.assertTrue(ports.isdisjoint({other.api_port, *other.ports.values()}))
        self.api(one).create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "only-in-one"}})
        self.assertIn("only-in-one", self.kubectl(one, "get", "namespaces"))
        self.assertNotIn("only-in-one", self.kubectl(two, "get", "namespaces"))
        self.assertEqual(len(self.api(two).items("Node")), 3)

        # A node that is told to fail fails alone.
        self.kubectl(two, "label", "node", "crowd-1", "node-not-ready.stage.kwok.x-k8s.io=true")
        states = lambda: [condition(node, "Ready") for node in sorted(self.api(two).items("Node"), key=lambda node: node["metadata"]["name"])]
        self.wait("a node that is not Ready", lambda: states() == ["True", "False", "True"])

        said = self.tool("up", "--name", "two", "--profile", "crowd", "--nodes", "4", succeed=False)
        self.assertRegex(said, "^cluster: 'two' runs already, as 3 simulated nodes; tools/cluster down first")

        # All by SIGKILL, at once: nothing survives, and the next start removes what is left.
        victims = one.process_ids()
        self.assertGreaterEqual(len(victims), 7)
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        self.wait("the end of all", lambda: not one.process_ids())
        self.assertIn("no cluster 'one' is running", self.tool("status", "--name", "one", succeed=False))
        self.up("one", "--profile", "crowd", "--nodes", "2")
        self.assertEqual(len(self.api(one).items("Node")), 2)

        # The keeper alone takes all with it.
        keeper = one.keeper_process()
        os.kill(keeper, signal.SIGKILL)
        self.wait("the end of all", lambda: not one.process_ids())

        self.assertEqual(self.tool("down", "--all"), "cluster: one is down\ncluster: two is down\n")
        self.assertEqual(self.tool("down", "--name", "one"), "cluster: one was not there\n")
        self.assertEqual(Machine().left_since(before, self.home), [])
        self.assertEqual([path.name for path in self.home.iterdir() if path.is_dir()], [])

    def test_names_and_folders_that_cannot_be(self):
        self.assertIn("cannot be a cluster's name", self.tool("up", "--name", "../x", succeed=False))
        for folder in ("/run/clusters", "/var/lib/clusters", "/tmp/a,b"):
            said = self.tool("status", succeed=False, env=os.environ | {"TF_CLUSTERS": folder})
            self.assertIn("choose another folder by TF_CLUSTERS", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
