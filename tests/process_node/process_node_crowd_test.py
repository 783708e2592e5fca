#!/usr/bin/env python3
"""500 pods on 8 nodes of one agent: time until all are Ready, and what the agent needs for each of them.

Usage: process_node_crowd_test.py BIN_FOLDER [pods]; tests/standalone must be in PYTHONPATH.
"""
import json
import os
import sys
import time

from cluster import Cluster, await_value

PODS = int(sys.argv[2]) if len(sys.argv) > 2 else 500
READY_LIMIT_S = 60
KB_PER_POD = 200
IDLE_S = 20


def memory_kb(pid):
    """Private memory: what would be free without the process."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        lines = [line.split() for line in file]
    return sum(int(line[1]) for line in lines if line[0] in ("Private_Clean:", "Private_Dirty:"))


def cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def shims(folder):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            if words[0].endswith(b"tensor-fusion-process-shim") and words[1] == b"run" and folder.encode() in words[3]:
                found.append(int(pid))
        except (OSError, IndexError):
            continue
    return found


def ready(cluster):
    status = json.loads(cluster.kubectl("get", "deployment", "crowd", "-o", "json").stdout)["status"]
    return status.get("readyReplicas", 0)


def main():
    with Cluster(os.path.abspath(sys.argv[1])) as cluster:
        cluster.up("--nodes", "8", "--image", "busybox=/")
        agent = cluster.parts()["process-node"]["pid"]
        memory, cpu = memory_kb(agent), cpu_s(agent)
        begin = time.monotonic()
        cluster.kubectl("apply", "-f", "-", input=json.dumps({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "crowd"},
            "spec": {"replicas": PODS, "selector": {"matchLabels": {"app": "crowd"}},
                     "template": {"metadata": {"labels": {"app": "crowd"}},
                                  "spec": {"terminationGracePeriodSeconds": 1, "containers": [
                                      {"name": "main", "image": "busybox", "command": ["sleep", "100000"]}]}}}}))
        await_value(lambda: ready(cluster) == PODS, 300, lambda: f"{ready(cluster)} of {PODS} are Ready\n{cluster.logs()}", 0.5)
        took = time.monotonic() - begin
        per_pod = (memory_kb(agent) - memory) / PODS
        start_cpu = cpu_s(agent) - cpu
        beside = shims(cluster.folder)
        shim_kb = sum(memory_kb(pid) for pid in beside) / max(1, len(beside))
        before = cpu_s(agent)
        time.sleep(IDLE_S)  # what is measured is time in which nothing happens
        idle = cpu_s(agent) - before
        begin = time.monotonic()
        cluster.kubectl("delete", "deployment", "crowd", "--cascade=foreground", "--timeout=300s", timeout=320)
        await_value(lambda: not shims(cluster.folder), 60, "shims are left")
        gone = time.monotonic() - begin
        print(f"{PODS} pods on 8 nodes\n"
              f"  all Ready after          {took:8.1f} s    (goal {READY_LIMIT_S})\n"
              f"  agent, each pod          {per_pod:8.1f} kB   (goal {KB_PER_POD}; {memory} kB without pods)\n"
              f"  shim of each container   {shim_kb:8.1f} kB\n"
              f"  agent, start of each pod {1000 * start_cpu / PODS:8.2f} ms of CPU\n"
              f"  agent, at rest           {100 * idle / IDLE_S:8.2f} % of a CPU\n"
              f"  all gone after           {gone:8.1f} s")
        assert len(beside) == PODS, f"{len(beside)} shims"
        assert took <= READY_LIMIT_S, "not Ready in time"
        assert per_pod < KB_PER_POD, "too much memory"
        assert idle / IDLE_S < 0.02, "an agent at rest polls"


if __name__ == "__main__":
    main()
