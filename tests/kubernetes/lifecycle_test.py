#!/usr/bin/env python3
"""How a cluster with a true node starts and ends, whatever happens to its processes."""
import os
import signal
import subprocess
import sys
import unittest

from support import ClusterTest, Machine, condition, linux, namespaces, namespaces_in_use, rig
from rig import images


class LifecycleTest(ClusterTest):
    def start(self):
        cluster = self.up("node", "--profile", "node")
        self.client = self.api(cluster)
        self.wait("the default service account", lambda: self.client.get("ServiceAccount", "default", "default"))
        return cluster

    def run_pod(self, name):
        self.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": {
            "containers": [{"name": "main", "image": images.BUSYBOX, "command": ["sleep", "3600"]}]}})
        self.wait_ready(name)

    def wait_ready(self, name):
        self.wait("pod Ready", lambda: condition(self.client.get("Pod", "default", name), "Ready") == "True")

    def test_all_of_it_goes(self):
        before = Machine()
        cluster = self.start()
        self.run_pod("first")

        # A second start finds it and changes nothing.
        processes = cluster.process_ids()
        self.start()
        self.assertEqual([pid for pid in processes if not os.path.exists(f"/proc/{pid}")], [])

        own = namespaces(cluster.init_process()) - namespaces(os.getpid())
        self.assertEqual(len(own), 3)
        self.tool("down", "--name", "node")
        self.assertEqual(Machine().left_since(before, self.home), [])
        self.assertEqual(own & namespaces_in_use(), set())
        self.assertEqual(self.tool("down", "--name", "node"), "cluster: node was not there\n")

    def test_a_start_after_the_end_by_force(self):
        before = Machine()
        for victims in ("everything", "keeper", "init"):
            with self.subTest(victims):
                cluster = self.start()
                self.run_pod("first")
                own = namespaces(cluster.init_process()) - namespaces(os.getpid())
                chosen = {"everything": cluster.process_ids(), "keeper": [cluster.keeper_process()], "init": [cluster.init_process()]}
                for pid in chosen[victims]:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass  # went with its parent
                self.wait("the end of all", lambda: not cluster.process_ids() and not own & namespaces_in_use())
                # But for the folder and the empty cgroups all is gone without anybody's help.
                left = [line for line in Machine().left_since(before, self.home) if not line.startswith("cgroups: ")]
                self.assertEqual(left, [])
        cluster = self.start()
        self.assertEqual(self.client.items("Pod", "default"), [])
        self.tool("down", "--name", "node")
        self.assertEqual(Machine().left_since(before, self.home), [])

    def test_a_part_that_dies_is_started_again(self):
        cluster = self.start()
        self.run_pod("survivor")
        identity = lambda: [(status["containerID"], status["restartCount"])
                            for status in self.client.get("Pod", "default", "survivor")["status"]["containerStatuses"]]
        first = identity()
        for name in ("etcd", "kube-apiserver", "containerd", "kubelet"):
            victim = cluster.part_process(name)
            os.kill(victim, signal.SIGKILL)
            self.wait(f"another {name}", lambda: cluster.part_process(name) not in (0, victim))
        self.wait("the API server", lambda: self.client.get("Namespace", name="default"))
        self.run_pod("newcomer")
        self.wait_ready("survivor")
        self.assertEqual(identity(), first)
        self.assertIn("started 2 times", self.tool("status", "--name", "node"))
        self.tool("down", "--name", "node")

    def test_two_at_once(self):
        # The same addresses, ports and paths in both.
        other = self.up("other", "--profile", "node")
        cluster = self.start()
        self.run_pod("first")
        pods = lambda one: self.tool("exec", "--name", one, "--", "kubectl", "get", "pods", "-o", "name")
        self.assertEqual((pods("node"), pods("other")), ("pod/first\n", ""))
        addresses = [self.tool("exec", "--name", name, "--", "ip", "-4", "-o", "address", "show", "dev", "node") for name in ("node", "other")]
        self.assertEqual(addresses[0], addresses[1])
        for one in (cluster, other):
            # Where device plugins look for the kubelet.
            self.tool("exec", "--name", one.name, "--", "test", "-S", "/var/lib/kubelet/device-plugins/kubelet.sock")
        self.assertFalse(os.path.exists("/var/lib/kubelet/device-plugins/kubelet.sock"))
        self.tool("down", "--name", "other")
        self.assertEqual(condition(self.client.get("Pod", "default", "first"), "Ready"), "True")
        self.assertEqual(self.tool("exec", "--name", "node", "--", "kubectl", "exec", "first", "--", "echo", "still here"), "still here\n")
        self.tool("down", "--name", "node")

    def test_several_true_nodes(self):
        before = Machine()
        cluster = self.up("node", "--true-nodes", "2")
        self.client = self.api(cluster)
        self.wait("the default service account", lambda: self.client.get("ServiceAccount", "default", "default"))
        archive = self.home / "own.tar"
        with open(archive, "wb") as stream:
            images.write_image(stream, "tensor-fusion.local/own:1", images.program_files("/bin/busybox"), [("bin/sh", "busybox")])
        self.tool("load", "--name", "node", str(archive))
        nodes = [node["metadata"]["name"] for node in self.client.items("Node")]
        self.assertEqual(nodes, ["node-0", "node-1"])
        for node in nodes:
            serve = f"echo from {node} > /tmp/index.html; exec busybox httpd -f -p 8080 -h /tmp"
            self.client.create(
                {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": node, "namespace": "default", "labels": {"on": node}}, "spec": {
                    "nodeName": node, "containers": [{
                        "name": "main", "image": "tensor-fusion.local/own:1", "command": ["/bin/sh", "-c", serve],
                        # The same one on both, as on two machines.
                        "ports": [{"containerPort": 8080, "hostPort": 8888}],
                        "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}}]}},
                {"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"on-{node}", "namespace": "default"},
                 "spec": {"selector": {"on": node}, "ports": [{"port": 80, "targetPort": 8080}]}})
        for node in nodes:
            self.wait_ready(node)
            self.tool("exec", "--name", "node", "--node", node, "--", "test", "-S", "/var/lib/kubelet/device-plugins/kubelet.sock")
        addresses = {node["metadata"]["name"]: node["status"]["addresses"][0]["address"] for node in self.client.items("Node")}
        self.assertEqual(len(set(addresses.values())), 2)
        for here in nodes:
            for there in nodes:
                for url in (f"http://on-{there}", f"http://{addresses[there]}:8888"):
                    self.wait(f"{there} answers {here} at {url}", lambda at=url, to=there, by=here: self.kubectl(
                        cluster, "exec", by, "--", "sh", "-c", f"busybox timeout 5 busybox wget -qO- {at} 2>&1 || true") == f"from {to}\n")

        # A part of the second node ends: what runs there runs on, and what the part does goes on there.
        identity = lambda: self.client.get("Pod", "default", "node-1")["status"]["containerStatuses"][0]["containerID"]
        first = identity()
        for name in ("containerd-1", "kubelet-1"):
            victim = cluster.part_process(name)
            os.kill(victim, signal.SIGKILL)
            self.wait(f"another {name}", lambda part=name, gone=victim: cluster.part_process(part) not in (0, gone))
        self.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "later", "namespace": "default"}, "spec": {
            "nodeName": "node-1", "containers": [{"name": "main", "image": images.BUSYBOX, "command": ["sleep", "3600"]}]}})
        self.wait_ready("later")
        self.assertEqual(identity(), first)
        self.assertIn("node-0 node-1", self.tool("exec", "--name", "node", "--node", "node-2", "--", "true", succeed=False))

        init = cluster.init_process()
        own = namespaces(init) | namespaces(cluster.part_process("kubelet-1"))
        own -= namespaces(os.getpid())
        self.assertEqual(len(own), 5)  # they have the process ids in common
        self.tool("down", "--name", "node")
        self.assertEqual(Machine().left_since(before, self.home), [])
        self.assertEqual(own & namespaces_in_use(), set())

    def test_what_exec_runs_ends_with_its_caller(self):
        cluster = self.start()
        caller = subprocess.Popen([sys.executable, rig.TOOL, "exec", "--name", "node", "--", "sh", "-c", "echo here; exec sleep 12345"],
                                  stdout=subprocess.PIPE)
        self.addCleanup(caller.stdout.close)
        self.assertEqual(caller.stdout.readline(), b"here\n")
        sleeps = lambda: [pid for pid in linux.process_ids() if command_of(pid) == b"sleep\x0012345\0"]
        self.wait("sleep", lambda: len(sleeps()) == 1)
        caller.kill()
        caller.wait()
        self.wait("the end of sleep", lambda: not sleeps())
        # And SIGTERM reaches the command itself.
        caller = subprocess.Popen([sys.executable, rig.TOOL, "exec", "--name", "node", "--", "sh", "-c",
                                   "trap 'exit 9' TERM; echo here; while true; do sleep 0.1; done"], stdout=subprocess.PIPE)
        self.addCleanup(caller.stdout.close)
        self.assertEqual(caller.stdout.readline(), b"here\n")
        caller.terminate()
        self.assertEqual(caller.wait(), 9)
        self.tool("down", "--name", "node")


def command_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


if __name__ == "__main__":
    unittest.main(verbosity=2)
