#!/usr/bin/env python3
"""`tfctl up`, `down` and `status` with the real parts: what they leave, what survives, what they say when it cannot be.

Usage: standalone_test.py BIN_FOLDER [unittest's arguments]
"""
import glob
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import unittest

from cluster import Cluster, await_value

BIN = os.path.abspath(sys.argv.pop(1))
PARTS = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]


def listening(pids):
    """Local addresses of the TCP and UDP sockets that these processes have open and that wait for others."""
    inodes = set()
    for pid in pids:
        for link in glob.glob(f"/proc/{pid}/fd/*"):
            try:
                inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink(link)))
            except OSError:
                continue
    addresses = set()
    for table, states in (("tcp", {"0A"}), ("tcp6", {"0A"}), ("udp", {"07"}), ("udp6", {"07"})):
        with open(f"/proc/net/{table}", encoding="ascii") as file:
            for fields in map(str.split, file.readlines()[1:]):
                if fields[9] in inodes and fields[3] in states:
                    addresses.add((table, fields[1]))
    return addresses


class Standalone(unittest.TestCase):
    def cluster(self, folder=None):
        cluster = Cluster(BIN, folder)
        self.addCleanup(cluster.close)
        return cluster

    def put(self, cluster, name, value):
        cluster.kubectl("create", "configmap", name, f"--from-literal=value={value}")

    def value(self, cluster, name):
        return cluster.await_kubectl("get", "configmap", name, "-o", "jsonpath={.data.value}").stdout

    def test_up_status_down_and_up_again(self):
        cluster = self.cluster()
        self.assertEqual(cluster.tfctl("status").returncode, 1)
        begin = time.monotonic()
        done = cluster.up("--nodes", "0")
        print(f"\nup took {time.monotonic() - begin:.1f} s\n{done.stderr}", file=sys.stderr)
        self.assertEqual(done.stdout, f"export KUBECONFIG={cluster.kubeconfig}\n")
        for part in PARTS:
            self.assertRegex(done.stderr, rf"(?m)^{part} ready \d+\.\d s$")
        self.assertEqual(stat.S_IMODE(os.stat(cluster.kubeconfig).st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(cluster.folder).st_mode), 0o700)

        status = cluster.status()
        self.assertEqual((status["state"], status["nodes"], status["nodesReady"]), ("ready", 0, 0))
        self.assertEqual([part["name"] for part in status["parts"]], PARTS)
        for part in status["parts"]:
            os.kill(part["pid"], 0)
            self.assertEqual((part["restarts"], part["lastEnd"]), (0, ""))
        table = cluster.tfctl("status").stdout
        self.assertRegex(table, r"(?m)^state +ready$")
        self.assertRegex(table, r"(?m)^kube-apiserver +\d+ +\d+ +0 +-$")

        addresses = listening([status["pid"]] + [part["pid"] for part in status["parts"]])
        self.assertEqual(len(addresses), 3, addresses)
        for table, address in addresses:
            self.assertEqual((table, address.split(":")[0]), ("tcp", "0100007F"))

        again = cluster.up("--nodes", "2")
        self.assertIn(f"runs already (process {status['pid']}, 0 nodes)", again.stderr)
        self.assertIn("tfctl up --nodes 2", again.stderr)
        self.assertEqual(again.stdout, done.stdout)

        self.put(cluster, "kept", "over a stop")
        token = cluster.kubectl("create", "token", "default").stdout
        cluster.down()
        self.assertEqual(cluster.leftovers(), {})
        self.assertFalse(os.path.exists(os.path.join(cluster.folder, "run")), "sockets are gone")
        self.assertEqual(cluster.tfctl("status").returncode, 1)
        self.assertIn("Nothing ran", cluster.down().stderr)

        with open(cluster.kubeconfig, encoding="utf-8") as file:
            kubeconfig_of_before = file.read()
        cluster.up("--nodes", "0")
        self.assertEqual(cluster.status()["server"], status["server"], "the address is that of before")
        self.assertEqual(self.value(cluster, "kept"), "over a stop")
        # What people copied and what pods were given stays good.
        review = cluster.kubectl("--token", token, "auth", "whoami", "--kubeconfig", "/dev/null", "--server", status["server"],
                                 "--insecure-skip-tls-verify")
        self.assertIn("system:serviceaccount:default:default", review.stdout)
        copy = os.path.join(cluster.folder, "copy")
        with open(copy, "w", encoding="utf-8") as file:
            file.write(kubeconfig_of_before)
        self.assertIn("kept", cluster.kubectl("--kubeconfig", copy, "get", "configmap", "kept").stdout)

    def test_two_clusters_at_once(self):
        one, other = self.cluster(), self.cluster()
        errors = []

        def start(cluster):
            try:
                cluster.up("--nodes", "0")
            except AssertionError as error:
                errors.append(error)

        threads = [threading.Thread(target=start, args=(cluster,)) for cluster in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        self.put(one, "mine", "one")
        self.put(other, "mine", "other")
        self.assertEqual((self.value(one, "mine"), self.value(other, "mine")), ("one", "other"))
        one.down()
        self.assertEqual(one.leftovers(), {})
        self.assertEqual(self.value(other, "mine"), "other")

    def test_a_killed_supervisor_takes_its_parts_along_and_the_next_start_goes_on(self):
        cluster = self.cluster()
        cluster.up("--nodes", "0")
        self.put(cluster, "kept", "over a kill")
        self.assertEqual(len(cluster.leftovers()), 1 + len(PARTS))
        os.kill(cluster.status()["pid"], signal.SIGKILL)
        await_value(lambda: not cluster.leftovers(), 30, cluster.leftovers)
        self.assertEqual(cluster.tfctl("status").returncode, 1)
        cluster.up("--nodes", "0")
        self.assertEqual(self.value(cluster, "kept"), "over a kill")
        os.kill(cluster.status()["pid"], signal.SIGKILL)
        cluster.down()
        self.assertEqual(cluster.leftovers(), {})

    def test_a_killed_part_comes_back(self):
        cluster = self.cluster()
        cluster.up("--nodes", "0")
        for name in PARTS:
            self.put(cluster, name, name)
            pid = cluster.parts()[name]["pid"]
            os.kill(pid, signal.SIGKILL)
            part = await_value(lambda n=name, p=pid: (now := cluster.parts()[n])["pid"] not in (0, p) and now, 30,
                               f"{name} does not come back")
            self.assertEqual((part["restarts"], part["lastEnd"].split(":")[0]), (1, "was ended by signal 9"))
            self.assertEqual(self.value(cluster, name), name)
        # All of them do their work again.
        cluster.await_kubectl("create", "deployment", "work", "--image=none", "--replicas=2")
        await_value(lambda: cluster.kubectl("get", "pods", "-l", "app=work", "-o", "name").stdout.count("pod/") == 2, 60,
                    "no pods of a Deployment")
        cluster.kubectl("wait", "pod", "-l", "app=work", "--for=condition=PodScheduled=false", "--timeout=60s")

    def test_all_killed_at_once(self):
        cluster = self.cluster()
        cluster.up("--nodes", "0")
        self.put(cluster, "kept", "over it all")
        status = cluster.status()
        for pid in [part["pid"] for part in status["parts"]] + [status["pid"]]:
            os.kill(pid, signal.SIGKILL)
        self.assertNotIn("already", cluster.up("--nodes", "0").stderr)
        self.assertEqual(self.value(cluster, "kept"), "over it all")

    def pod_processes(self, cluster):
        """{pod: pid of its container's process}"""
        names = cluster.kubectl("get", "pods", "-l", "app=work", "-o", "jsonpath={.items[*].metadata.name}").stdout.split()
        return {name: cluster.kubectl("exec", name, "--", "cat", "pid").stdout.strip() for name in names}

    def start_work(self, cluster):
        cluster.kubectl("create", "deployment", "work", "--image=local", "--replicas=3", "--", "sh", "-c",
                        "echo $$$$ > pid; exec sleep 1000000")  # $$ stands for $ in a command
        cluster.kubectl("rollout", "status", "deployment/work", "--timeout=60s")
        return self.pod_processes(cluster)

    def test_nodes_and_their_pods(self):
        cluster = self.cluster()
        done = cluster.up("--nodes", "2", "--image", "local=/")
        print(f"\n{done.stderr}", file=sys.stderr)
        self.assertEqual((cluster.status()["nodes"], cluster.status()["nodesReady"]), (2, 2))
        before = self.start_work(cluster)
        self.assertEqual(len(set(before.values())), 3)

        # Pods outlive the program that runs them, and whoever started that.
        os.kill(cluster.parts()["process-node"]["pid"], signal.SIGKILL)
        await_value(lambda: cluster.parts()["process-node"]["restarts"] == 1, 30, "process-node does not come back")
        cluster.await_kubectl("exec", "deployment/work", "--", "true")
        self.assertEqual(self.pod_processes(cluster), before)
        os.kill(cluster.status()["pid"], signal.SIGKILL)
        await_value(lambda: cluster.status() is None, 30, "the supervisor does not end")
        cluster.up("--nodes", "2", "--image", "local=/")
        self.assertEqual(self.pod_processes(cluster), before)

        # A stop ends them; nodes that are not asked for any more are no longer there.
        cluster.down()
        self.assertEqual(cluster.leftovers(), {})
        self.assertEqual([pid for pid in before.values() if os.path.exists(f"/proc/{pid}")], [])
        done = cluster.up("--nodes", "1", "--image", "local=/")
        self.assertIn("removed node-1\n", done.stderr)
        self.assertEqual(cluster.kubectl("get", "nodes", "-o", "name").stdout, "node/node-0\n")

    def test_down_ends_the_pods_of_a_killed_cluster(self):
        cluster = self.cluster()
        cluster.up("--image", "local=/")
        self.start_work(cluster)
        os.kill(cluster.status()["pid"], signal.SIGKILL)
        await_value(lambda: cluster.status() is None, 30, "the supervisor does not end")
        self.assertRegex(cluster.down().stderr, r"ended \d+ leftover")
        self.assertEqual(cluster.leftovers(), {})

    def refusal(self, done):
        """The one line of a start that failed."""
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        return lines[0]

    def test_a_second_start_on_a_folder_says_who_has_it(self):
        cluster = self.cluster()
        cluster.up("--nodes", "0")
        second = subprocess.run([cluster.program("tensor-fusion-standalone"), "--data-dir", cluster.folder, "--nodes", "0"],
                                capture_output=True, text=True, check=False)
        self.assertIn(f"in use by process {cluster.status()['pid']}", self.refusal(second))
        self.assertEqual(cluster.kubectl("get", "--raw", "/readyz").stdout, "ok")

    def test_a_busy_port(self):
        cluster = self.cluster()
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            line = self.refusal(cluster.tfctl("up", "--nodes", "0", "--port", str(port)))
            self.assertIn(f"port {port} of 127.0.0.1 is taken", line)
            self.assertIn("--port", line)
            self.assertTrue(os.path.isdir("/run"))  # a start that got no ports removed this one instead of its own
            # A port of last time that somebody has now is no reason to fail.
            os.makedirs(cluster.folder, exist_ok=True)
            with open(os.path.join(cluster.folder, "ports"), "w", encoding="ascii") as file:
                file.write(f"kube-apiserver {port}\n")
            done = cluster.up("--nodes", "0")
            self.assertIn(f"port {port} is taken by another program now", done.stderr)
            self.assertEqual(cluster.kubectl("get", "--raw", "/readyz").stdout, "ok")
        self.assertEqual(cluster.leftovers().keys(), {cluster.status()["pid"]} | {p["pid"] for p in cluster.parts().values()})

    def test_a_folder_of_a_newer_program(self):
        cluster = self.cluster()
        os.makedirs(cluster.folder)
        with open(os.path.join(cluster.folder, "version"), "w", encoding="ascii") as file:
            file.write("99\n")
        self.assertIn("written by a newer program", self.refusal(cluster.tfctl("up", "--nodes", "0")))

    def test_a_full_disk(self):
        # Forty megabytes that only this process sees.
        cluster = self.cluster()
        os.makedirs(cluster.folder)
        script = 'mount -t tmpfs -o size=40m none "$1" && exec "$2" up --nodes 0 --data-dir "$1"'
        done = subprocess.run(["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", cluster.folder,
                               cluster.program("tfctl")], capture_output=True, text=True, check=False)
        self.assertIn("is full", self.refusal(done))

    def test_a_missing_program(self):
        cluster = self.cluster()
        done = subprocess.run([cluster.program("tensor-fusion-standalone"), "--data-dir", cluster.folder, "--nodes", "0",
                               "--controlplane", "/no/such/program"], capture_output=True, text=True, check=False)
        line = self.refusal(done)
        self.assertIn("there is no program /no/such/program", line)
        self.assertIn("make build", line)

    def test_a_part_that_does_not_start_is_named(self):
        cluster = self.cluster()
        done = subprocess.run([cluster.program("tensor-fusion-standalone"), "--data-dir", cluster.folder, "--nodes", "0",
                               "--api-server-flag=--no-such-flag"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\Akube-apiserver ended with status 1: .*no-such-flag.*\n\Z")
        self.assertEqual(cluster.leftovers(), {})

    def test_foreground_ends_everything_with_ctrl_c(self):
        cluster = self.cluster()
        with subprocess.Popen([cluster.program("tfctl"), "up", "--nodes", "0", "--foreground", "--data-dir", cluster.folder],
                              stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                if line.startswith("export "):
                    break
            self.assertEqual(cluster.kubectl("get", "--raw", "/readyz").stdout, "ok")
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(timeout=60), 0)
        self.assertEqual(cluster.leftovers(), {})

    def test_ctrl_c_during_the_start_leaves_nothing(self):
        cluster = self.cluster()
        with subprocess.Popen([cluster.program("tfctl"), "up", "--nodes", "0", "--data-dir", cluster.folder],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            self.assertRegex(process.stderr.readline(), "^etcd ready")
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 1)
            self.assertIn("stopped before it was ready", errors)
        self.assertEqual(cluster.leftovers(), {})


if __name__ == "__main__":
    unittest.main()
