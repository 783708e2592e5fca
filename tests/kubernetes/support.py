"""What the tests of tools/cluster share."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
from rig import cluster as rig  # noqa: E402  pylint: disable=wrong-import-position
from rig import linux, parts  # noqa: E402  pylint: disable=wrong-import-position
from rig.api import Api, condition, wait_for  # noqa: E402  pylint: disable=wrong-import-position

__all__ = ["ClusterTest", "Machine", "condition", "give_up_root", "linux", "parts", "rig", "wait_for"]

PATIENCE_S = 180  # on a machine that does other work


def give_up_root():
    """For the rest of this process and what it starts: as root no longer, without any capability. (In a user namespace without
    a user: files still belong to their owner.)"""
    if os.geteuid() == 0:
        linux.unshare(linux.CLONE_NEWUSER)


class ClusterTest(unittest.TestCase):
    """Each test class has a folder of clusters of its own, and ends what is left in it."""

    @classmethod
    def setUpClass(cls):
        cls.home = pathlib.Path(tempfile.mkdtemp(prefix="tf-cluster-"))
        os.environ["TF_CLUSTERS"] = str(cls.home)
        cls.addClassCleanup(shutil.rmtree, cls.home)
        cls.addClassCleanup(cls.tool, "down", "--all")

    @classmethod
    def tool(cls, *arguments, succeed=True, **options):
        """Runs tools/cluster; its standard output, or with succeed=False what it said on standard error."""
        result = subprocess.run([sys.executable, rig.TOOL, *arguments], capture_output=True, text=True, check=False, **options)
        if (result.returncode == 0) != succeed:
            raise AssertionError(f"tools/cluster {' '.join(arguments)}: exit status {result.returncode}\n{result.stdout}{result.stderr}")
        return result.stdout if succeed else result.stderr

    @classmethod
    def up(cls, name, *arguments):
        began = time.monotonic()
        output = cls.tool("up", "--name", name, *arguments)
        print(f"{name} {' '.join(arguments)}: up in {time.monotonic() - began:.1f} s\n{output}", flush=True)
        return rig.Cluster(name)

    @staticmethod
    def api(cluster):
        description = cluster.description()
        return Api(description.api_port, description.certificates)

    @staticmethod
    def kubectl_environment(cluster):
        return {"KUBECONFIG": str(cluster.description().kubeconfig), "PATH": os.environ["PATH"], "HOME": str(cluster.folder)}

    @staticmethod
    def kubectl(cluster, *arguments, data=None, succeed=True):
        """kubectl outside of the cluster's network, by its kubeconfig alone."""
        result = subprocess.run([cluster.folder / "bin/kubectl", *arguments], input=data, capture_output=True, text=True, check=False,
                                env=ClusterTest.kubectl_environment(cluster))
        if (result.returncode == 0) != succeed:
            raise AssertionError(f"kubectl {' '.join(arguments)}: exit status {result.returncode}\n{result.stdout}{result.stderr}")
        return result.stdout if succeed else result.stderr

    def wait(self, what, predicate, timeout=PATIENCE_S):
        return wait_for(what, predicate, timeout)


# By these a node's traces are told from what others do on the machine meanwhile.
TRACES = re.compile("containerd|runc|cni|netns|kube|xtables|^veth|^node$|^pods$")


class Machine:
    """What a cluster may leave on a machine: compare one taken before with one taken after."""

    def __init__(self):
        run = subprocess.run
        self.mounts = set(pathlib.Path("/proc/self/mounts").read_text().splitlines())
        self.named_networks = set(run(["ip", "netns"], capture_output=True, text=True, check=True).stdout.split())
        self.links = {link["ifname"] for link in json.loads(run(["ip", "-json", "link"], capture_output=True, text=True, check=True).stdout)}
        self.cgroups = {str(path) for root in linux.cgroup_roots() for path in root.glob("tensor-fusion-*")}
        self.run = {str(path) for pattern in ("*", "netns/*", "containerd/*", "runc/*") for path in pathlib.Path("/run").glob(pattern)}
        self.run |= {str(path) for path in pathlib.Path("/var/lib").glob("*")}
        self.sockets = {words[7] for line in pathlib.Path("/proc/net/unix").read_text().splitlines() if len(words := line.split()) > 7}
        self.settings = {path: pathlib.Path(f"/proc/sys/{path}").read_text() for path in parts.KERNEL_SETTINGS}

    def left_since(self, before, home):
        """Lines for what is there now and was not BEFORE. HOME: the folder of the clusters."""
        new = [f"{kind}: {item}" for kind in ("mounts", "named_networks", "links", "cgroups", "run", "sockets")
               for item in getattr(self, kind) - getattr(before, kind)
               if str(home) in item or parts.cgroup_prefix(home) in item or (kind != "sockets" and TRACES.search(item))]
        new += [f"setting: {path}" for path in self.settings if self.settings[path] != before.settings[path]]
        for pid in linux.process_ids():
            try:
                command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() + pathlib.Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                continue
            if os.fsencode(home) in command and pid != os.getpid() and b"TF_CLUSTERS=" + os.fsencode(home) not in command:
                new.append(f"process {pid}: {command[:200]}")
        return new


def namespaces(pid):
    """The mount, network and process-id namespaces of a process."""
    return {os.readlink(f"/proc/{pid}/ns/{kind}") for kind in ("mnt", "net", "pid")}


def namespaces_in_use():
    found = set()
    for pid in linux.process_ids():
        try:
            found |= namespaces(pid)
        except OSError:
            continue
    return found
