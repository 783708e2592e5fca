#!/usr/bin/env python3
"""Pods as processes: workloads, probes, volumes, logs, exec, ends, and agents that are killed.

Usage: process_node_nodes_test.py BIN_FOLDER [unittest's arguments]; tests/standalone must be in PYTHONPATH.
"""
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
import unittest
import urllib.request

from cluster import Cluster, await_value

BIN = os.path.abspath(sys.argv.pop(1))
SERVER = ("import http.server, os\n"
          "class H(http.server.BaseHTTPRequestHandler):\n"
          " def do_GET(self):\n"
          "  self.send_response(200 if not os.path.exists(os.environ['HOME'] + '/broken') else 500); self.end_headers()\n"
          "  self.wfile.write(os.environ['HOSTNAME'].encode())\n"
          "print('serving', flush=True)\n"
          "http.server.ThreadingHTTPServer((os.environ['POD_IP'], 8080), H).serve_forever()\n")
POD_IP = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}

cluster = None


def setUpModule():
    global cluster
    cluster = Cluster(BIN)
    cluster.up("--nodes", "3", "--gpus-per-node", "T4:2", "--image", "busybox=/")


def tearDownModule():
    try:
        cluster.down()
        left = cluster.leftovers()
        assert not left, f"down left {left}"
    finally:
        cluster.close()


def container(name="main", command=None, **more):
    return {"name": name, "image": "busybox:1.36", **({"command": command} if command else {}), **more}


def shell(script, name="main", **more):
    return container(name, ["sh", "-c", script], **more)


def pod(name, *containers, annotations=None, **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {"containers": list(containers), "terminationGracePeriodSeconds": 5, **spec}}


def server(name="main", **more):
    return container(name, ["python3", "-c", SERVER], env=[POD_IP], **more)


def workload(kind, name, replicas, template, **spec):
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
                     "template": {"metadata": {"labels": {"app": name}}, "spec": template}, **spec}}


def processes(uid):
    """{pid: start time} of the processes of a pod, by their marker."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if f"TENSOR_FUSION_CONTAINER={uid}/".encode() not in file.read():
                    continue
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                found[int(pid)] = file.read().rsplit(")", 1)[1].split()[19]
        except OSError:
            continue
    return found


class ProcessNode(unittest.TestCase):
    maxDiff = None

    def make(self, *objects):
        for one in objects:
            cluster.kubectl("apply", "-f", "-", input=json.dumps(one))
            kind, name = one["kind"].lower(), one["metadata"]["name"]
            self.addCleanup(lambda kind=kind, name=name: cluster.kubectl(
                "delete", kind, name, "--ignore-not-found", "--grace-period=2"))

    def get(self, kind, name):
        done = cluster.kubectl("get", kind, name, "-o", "json", check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def status(self, name, of="main"):
        status = (self.get("pod", name) or {}).get("status", {})
        for one in status.get("containerStatuses", []) + status.get("initContainerStatuses", []):
            if one["name"] == of:
                return one
        return {"state": {}, "lastState": {}, "ready": False, "restartCount": 0}

    def await_pod(self, name, holds, what, limit=60):
        def ask():
            found = self.get("pod", name)
            return found if found and holds(found) else None
        return await_value(ask, limit, lambda: f"{name}: not {what}: {json.dumps((self.get('pod', name) or {}).get('status'))}"
                                               f"\n{cluster.logs()}")

    def await_ready(self, name, limit=60):
        return self.await_pod(name, lambda found: any(one["type"] == "Ready" and one["status"] == "True" for one in
                                                      found["status"].get("conditions", [])), "Ready", limit)

    def await_state(self, name, kind, reason, of="main", limit=60):
        return await_value(lambda: self.status(name, of)["state"].get(kind, {}).get("reason") == reason, limit,
                           lambda: f"{name}: not {kind} for {reason}: {self.status(name, of)}")

    def await_phase(self, name, phase, limit=60):
        return self.await_pod(name, lambda found: found["status"].get("phase") == phase, phase, limit)

    def exec(self, name, *command, **options):
        return cluster.kubectl("exec", *(["-i"] if "input" in options else []), name, "--", *command, check=False, **options)

    # ---- workloads

    def test_deployment_statefulset_job(self):
        probe = {"httpGet": {"port": 8080}, "periodSeconds": 1}
        self.make(workload("Deployment", "web", 3, {"containers": [server(readinessProbe=probe)]}),
                  workload("StatefulSet", "db", 2, {"containers": [shell("sleep 1000")], "terminationGracePeriodSeconds": 1},
                           serviceName="db"),
                  {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"},
                   "spec": {"completions": 3, "parallelism": 2, "template": {"spec": {
                       "restartPolicy": "Never", "containers": [shell("echo $((1 + 2))")]}}}})
        cluster.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
        cluster.kubectl("rollout", "status", "statefulset/db", "--timeout=60s")
        cluster.kubectl("wait", "--for=condition=Complete", "job/sum", "--timeout=60s")
        self.assertEqual(cluster.kubectl("logs", "job/sum").stdout, "3\n")
        pods = json.loads(cluster.kubectl("get", "pods", "-l", "app=web", "-o", "json").stdout)["items"]
        addresses = {one["status"]["podIP"] for one in pods}
        self.assertEqual(len(addresses), 3, addresses)
        for one in pods:
            with urllib.request.urlopen(f"http://{one['status']['podIP']}:8080", timeout=10) as answer:
                self.assertEqual(answer.read().decode(), one["metadata"]["name"])
        self.assertEqual(len({one["spec"]["nodeName"] for one in pods}), 3, "spread over the nodes")
        # A rolling restart never has fewer than two of them.
        cluster.kubectl("rollout", "restart", "deployment/web")
        cluster.kubectl("rollout", "status", "deployment/web", "--timeout=60s")

    def test_what_a_node_says(self):
        nodes = json.loads(cluster.kubectl("get", "nodes", "-o", "json").stdout)["items"]
        self.assertEqual([one["metadata"]["name"] for one in nodes], ["node-0", "node-1", "node-2"])
        for one in nodes:
            self.assertEqual(one["metadata"]["labels"]["kubernetes.io/hostname"], one["metadata"]["name"])
            self.assertEqual(one["metadata"]["annotations"]["process-node.tensor-fusion.ai/gpus"], "T4:2")
            self.assertEqual(one["status"]["declaredFeatures"], ["ExtendWebSocketsToKubelet"])
            self.assertEqual({kind["type"]: kind["status"] for kind in one["status"]["conditions"]}["Ready"], "True")
        lease = json.loads(cluster.kubectl("get", "lease", "-n", "kube-node-lease", "node-1", "-o", "json").stdout)
        self.assertEqual(lease["spec"]["leaseDurationSeconds"], 40)
        await_value(lambda: json.loads(cluster.kubectl("get", "lease", "-n", "kube-node-lease", "node-1", "-o", "json").stdout)
                    ["spec"]["renewTime"] != lease["spec"]["renewTime"], 30, "the lease is not renewed")

    def test_unmapped_image_and_missing_program(self):
        self.make(pod("unmapped", {"name": "main", "image": "registry.example.com/nothing:1"}),
                  pod("noprogram", container(command=["no-such-program"]), restartPolicy="Never"))
        self.await_state("unmapped", "waiting", "ImagePullBackOff")
        self.assertIn("give the node --image registry.example.com/nothing=FOLDER",
                      self.status("unmapped")["state"]["waiting"]["message"])
        self.await_phase("noprogram", "Failed")
        ended = self.status("noprogram")["state"]["terminated"]
        self.assertEqual((ended["exitCode"], ended["reason"]), (128, "StartError"))
        self.assertIn("executable file not found in $PATH", ended["message"])

    def test_crash_loop(self):
        self.make(pod("crash", shell("echo run; echo why >/dev/termination-log; exit 3")))
        self.await_state("crash", "waiting", "CrashLoopBackOff")
        status = self.status("crash")
        last = status["lastState"]["terminated"]
        self.assertEqual((last["exitCode"], last["reason"], last["message"]), (3, "Error", "why\n"))
        self.assertEqual(status["restartCount"], 1)
        self.assertEqual(self.get("pod", "crash")["status"]["phase"], "Running")
        await_value(lambda: self.status("crash")["restartCount"] == 2, 30, "it is not started again")
        self.assertEqual(cluster.kubectl("logs", "crash", "--previous").stdout, "run\n")

    def test_exit_codes_and_policies(self):
        self.make(pod("good", shell("exit 0"), restartPolicy="Never"), pod("bad", shell("exit 7"), restartPolicy="Never"),
                  pod("killed", shell("kill -9 $$$$"), restartPolicy="Never"))
        self.await_phase("good", "Succeeded")
        self.await_phase("bad", "Failed")
        self.await_phase("killed", "Failed")
        self.assertEqual(self.status("good")["state"]["terminated"]["reason"], "Completed")
        self.assertEqual(self.status("bad")["state"]["terminated"]["exitCode"], 7)
        self.assertEqual(self.status("killed")["state"]["terminated"]["exitCode"], 137)

    # ---- probes, order, volumes

    def test_probes(self):
        http = {"httpGet": {"port": "web", "path": "/x"}, "periodSeconds": 1, "failureThreshold": 2}
        self.make(pod("probed", server(ports=[{"name": "web", "containerPort": 8080}], readinessProbe=http,
                                       livenessProbe={"exec": {"command": ["sh", "-c", "! test -e $HOME/dead"]},
                                                      "periodSeconds": 1, "failureThreshold": 1},
                                       startupProbe={"tcpSocket": {"port": 8080}, "periodSeconds": 1,
                                                     "failureThreshold": 30})))
        self.await_ready("probed")
        self.exec("probed", "sh", "-c", "touch $HOME/broken")
        await_value(lambda: not self.status("probed")["ready"], 30, "readiness does not fall")
        self.assertEqual(self.status("probed")["restartCount"], 0)
        self.exec("probed", "sh", "-c", "rm $HOME/broken")
        self.await_ready("probed")
        self.exec("probed", "sh", "-c", "touch $HOME/dead")
        await_value(lambda: self.status("probed")["restartCount"] >= 1, 30, "liveness does not restart it")
        self.exec("probed", "sh", "-c", "rm $HOME/dead")
        # An event says why.
        await_value(lambda: "Liveness probe failed" in cluster.kubectl("get", "events").stdout, 30, "no event")

    def test_init_containers_sidecars_and_volumes(self):
        cluster.kubectl("create", "configmap", "conf", "--from-literal=key=one")
        cluster.kubectl("create", "secret", "generic", "sec", "--from-literal=pass=word")
        self.addCleanup(lambda: cluster.kubectl("delete", "configmap/conf", "secret/sec"))
        data = [{"name": "data", "mountPath": "/data"}]
        self.make(pod(
            "order",
            shell("cat /data/log /etc/conf/key /etc/all/pass; echo; echo $PASS $ALL_key $NODE >&2; sleep 1000",
                  env=[{"name": "PASS", "valueFrom": {"secretKeyRef": {"name": "sec", "key": "pass"}}},
                       {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
                  envFrom=[{"prefix": "ALL_", "configMapRef": {"name": "conf"}}],
                  volumeMounts=data + [{"name": "conf", "mountPath": "/etc/conf"},
                                       {"name": "all", "mountPath": "/etc/all", "readOnly": True}]),
            initContainers=[shell("echo first >>/data/log", "first", volumeMounts=data),
                            shell("echo side >>/data/log; trap 'echo side ends >>/data/log; exit' TERM; while :; do sleep 0.05; done",
                                  "side", restartPolicy="Always", volumeMounts=data,
                                  startupProbe={"exec": {"command": ["grep", "side", "/data/log"]}, "periodSeconds": 1}),
                            shell("echo second >>/data/log", "second", volumeMounts=data)],
            volumes=[{"name": "data", "emptyDir": {}}, {"name": "conf", "configMap": {"name": "conf"}},
                     {"name": "all", "projected": {"sources": [{"secret": {"name": "sec"}},
                                                               {"serviceAccountToken": {"path": "token"}}]}}]))
        node = self.await_ready("order")["spec"]["nodeName"]
        self.assertEqual(cluster.kubectl("logs", "order", "-c", "main").stdout,
                         f"first\nside\nsecond\noneword\nword one {node}\n")
        cluster.kubectl("patch", "configmap", "conf", "-p", '{"data":{"key":"two"}}')
        await_value(lambda: cluster.kubectl("exec", "order", "-c", "main", "--", "cat", "/etc/conf/key").stdout == "two", 30,
                    "the change does not reach the volume")
        self.assertNotEqual(cluster.kubectl("exec", "order", "-c", "main", "--", "touch", "/etc/all/x", check=False).returncode, 0)

    def test_missing_configuration_is_waited_for(self):
        self.make(pod("waits", shell("echo $V; sleep 1000", env=[
            {"name": "V", "valueFrom": {"configMapKeyRef": {"name": "later", "key": "k"}}}])))
        self.await_state("waits", "waiting", "CreateContainerConfigError")
        self.assertEqual(self.status("waits")["state"]["waiting"]["message"], 'configmap "later" not found')
        cluster.kubectl("create", "configmap", "later", "--from-literal=k=here")
        self.addCleanup(lambda: cluster.kubectl("delete", "configmap", "later"))
        self.await_ready("waits", 20)
        self.assertEqual(cluster.kubectl("logs", "waits").stdout, "here\n")

    def test_service_account(self):
        self.make(pod("caller", shell("sleep 1000")))
        self.await_ready("caller")
        script = ('d=/var/run/secrets/kubernetes.io/serviceaccount; cat $d/namespace; echo; '
                  'curl -s --cacert $d/ca.crt -H "Authorization: Bearer $(cat $d/token)" '
                  'https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/api/v1/namespaces/default/pods')
        answer = self.exec("caller", "sh", "-c", script).stdout
        self.assertTrue(answer.startswith("default\n"), answer)
        self.assertIn("system:serviceaccount:default:default", answer, "it is known by its token")

    def test_resource_limits(self):
        with open(os.path.join(cluster.folder, "run", "process-node.json"), encoding="utf-8") as file:
            limits = json.load(file)["limits"]
        self.make(pod("eats", container(command=["python3", "-c", "x = bytearray(300 << 20); print(len(x))"],
                                        resources={"limits": {"memory": "64Mi"}}), restartPolicy="Never"))
        if limits == "enforced":
            self.await_phase("eats", "Failed")
            ended = self.status("eats")["state"]["terminated"]
            self.assertEqual((ended["reason"], ended["exitCode"]), ("OOMKilled", 137))
        else:
            self.await_phase("eats", "Succeeded")
            self.assertIn("are not enforced", limits, "who has no limits is told why")

    # ---- kubectl

    def test_logs(self):
        self.make(pod("talks", shell("i=0; while :; do i=$((i+1)); echo line $i; echo err $i >&2; sleep 0.1; done")))
        self.await_ready("talks")
        follower = subprocess.Popen([cluster.program("kubectl"), "logs", "-f", "talks"], env=cluster.env(),
                                    stdout=subprocess.PIPE, text=True)
        try:
            lines = [follower.stdout.readline() for _ in range(30)]
        finally:
            follower.kill()
            follower.wait()
            follower.stdout.close()
        self.assertIn("line 1\n", lines)
        self.assertIn("err 9\n", lines)
        tail = cluster.kubectl("logs", "talks", "--tail=4", "--timestamps").stdout.splitlines()
        self.assertEqual(len(tail), 4)
        self.assertRegex(tail[0], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z (line|err) \d+$")
        self.assertLessEqual(len(cluster.kubectl("logs", "talks", "--limit-bytes=10").stdout), 10)
        # A follower of a container that ends, ends.
        self.make(pod("speaks", shell("echo begin; sleep 3; echo end"), restartPolicy="Never"))
        self.await_ready("speaks")
        self.assertEqual(cluster.kubectl("logs", "-f", "speaks", timeout=60).stdout, "begin\nend\n")

    def test_exec(self):
        self.make(pod("runs", shell("sleep 1000")))
        self.await_ready("runs")
        done = self.exec("runs", "sh", "-c", "echo out; echo err >&2; exit 7")
        self.assertEqual((done.returncode, done.stdout), (7, "out\n"))
        self.assertTrue(done.stderr.startswith("err\n"), done.stderr)
        self.assertEqual(self.exec("runs", "cat", input="typed").stdout, "typed")
        done = self.exec("runs", "no-such-program")
        self.assertEqual(done.returncode, 1)
        self.assertIn("executable file not found in $PATH", done.stderr)
        many = self.exec("runs", "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x")
        self.assertEqual(len(many.stdout), 3_000_000)
        self.assertEqual(self.exec("runs", "wc", "-c", input="y" * 3_000_000).stdout.strip(), "3000000")
        # What a client that goes away had started ends with it.
        uid = self.get("pod", "runs")["metadata"]["uid"]
        before = processes(uid)
        client = subprocess.Popen([cluster.program("kubectl"), "exec", "runs", "--", "sleep", "1234"], env=cluster.env())
        await_value(lambda: len(processes(uid)) > len(before), 30, "exec starts nothing")
        client.kill()
        client.wait()
        await_value(lambda: processes(uid) == before, 30, "exec left a process")

    def test_exec_with_a_terminal(self):
        self.make(pod("screen", shell("sleep 1000")))
        self.await_ready("screen")
        parent, child = pty.openpty()
        client = subprocess.Popen([cluster.program("kubectl"), "exec", "-it", "screen", "--", "sh", "-c",
                                   "tty; read x; echo got $x; exit 4"], env=cluster.env(), stdin=child, stdout=child,
                                  stderr=subprocess.DEVNULL)
        os.close(child)
        output, sent = b"", False
        end = time.monotonic() + 60
        while client.poll() is None and time.monotonic() < end:
            if select.select([parent], [], [], 0.1)[0]:
                try:
                    output += os.read(parent, 4096)
                except OSError:
                    break
            if b"/dev/pts/" in output and not sent:
                os.write(parent, b"words\r")
                sent = True
        self.assertEqual(client.wait(30), 4, output)
        while select.select([parent], [], [], 0)[0]:
            try:
                output += os.read(parent, 4096)
            except OSError:
                break
        os.close(parent)
        self.assertIn(b"got words", output)

    def test_attach(self):
        done = cluster.kubectl("run", "listens", "--image=busybox", "--restart=Never", "-i", "--rm", "--command", "--",
                               "sh", "-c", "read x; echo heard $x", input="this\n", timeout=120)
        self.assertIn("heard this\n", done.stdout)

    def test_port_forward(self):
        self.make(pod("serves", server(readinessProbe={"httpGet": {"port": 8080}, "periodSeconds": 1})))
        self.await_ready("serves")
        client = subprocess.Popen([cluster.program("kubectl"), "port-forward", "pod/serves", ":8080", ":8081"],
                                  env=cluster.env(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            ports = {}
            while len(ports) < 2:
                line = client.stdout.readline()
                self.assertTrue(line, "port-forward ended")
                if "127.0.0.1:" in line:
                    local, remote = line.split("127.0.0.1:")[1].split(" -> ")
                    ports[int(remote)] = int(local)
            for _ in range(5):
                with urllib.request.urlopen(f"http://127.0.0.1:{ports[8080]}", timeout=20) as answer:
                    self.assertEqual(answer.read().decode(), "serves")
            with socket.create_connection(("127.0.0.1", ports[8081]), timeout=20) as nobody:
                nobody.settimeout(20)
                self.assertEqual(nobody.recv(1), b"", "nobody listens there")
        finally:
            client.kill()
            client.wait()
            client.stdout.close()

    # ---- ends

    def test_whoever_ignores_sigterm_is_killed_with_all_children(self):
        self.make(pod("stubborn", shell("trap '' TERM; setsid sh -c 'trap \"\" TERM; while :; do sleep 100; done' & "
                                        "while :; do sleep 100; done"), terminationGracePeriodSeconds=2))
        uid = self.await_ready("stubborn")["metadata"]["uid"]
        await_value(lambda: len(processes(uid)) >= 5, 30, lambda: f"only {processes(uid)}")
        begin = time.monotonic()
        cluster.kubectl("delete", "pod", "stubborn", "--timeout=60s")
        self.assertGreater(time.monotonic() - begin, 2)
        self.assertEqual(processes(uid), {})

    def test_pre_stop_and_grace(self):
        data = os.path.join(cluster.folder, "pre-stop")
        self.addCleanup(lambda: os.path.exists(data) and os.remove(data))
        self.make(pod("polite", shell(f"trap 'echo term >>{data}; exit 0' TERM; while :; do sleep 0.05; done",
                                      lifecycle={"preStop": {"exec": {"command": ["sh", "-c", f"echo pre >>{data}"]}},
                                                 "postStart": {"exec": {"command": ["sh", "-c", f"echo post >>{data}"]}}})))
        self.await_ready("polite")
        cluster.kubectl("delete", "pod", "polite", "--timeout=60s")
        with open(data, encoding="utf-8") as file:
            self.assertEqual(file.read(), "post\npre\nterm\n")

    def test_folders_go_with_their_pods(self):
        self.make(pod("brief", shell("sleep 1000"), terminationGracePeriodSeconds=1))
        uid = self.await_ready("brief")["metadata"]["uid"]
        folder = os.path.join(cluster.folder, "nodes", "pods", uid)
        self.assertTrue(os.path.isdir(folder))
        cluster.kubectl("delete", "pod", "brief", "--force", "--grace-period=0")
        await_value(lambda: not os.path.exists(folder) and not processes(uid), 30, "something is left")

    # ---- failures on request, and real ones

    def test_faults_by_annotation(self):
        prefix = "process-node.tensor-fusion.ai/"
        self.make(pod("slow", shell("sleep 1000"), annotations={prefix + "slow-start": "2s"}),
                  pod("unready", shell("sleep 1000"), annotations={prefix + "never-ready": "true"}),
                  pod("crashes", shell("sleep 1000"), annotations={prefix + "crash": "1s:9"}, restartPolicy="Never"))
        found = self.await_ready("slow")
        stamp = lambda text: time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))
        self.assertGreaterEqual(stamp(found["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]) -
                                stamp(found["status"]["startTime"]), 1)
        self.await_phase("crashes", "Failed")
        self.assertEqual(self.status("crashes")["state"]["terminated"]["exitCode"], 9)
        self.await_phase("unready", "Running")
        self.assertFalse(self.status("unready")["ready"])

    def test_node_that_falls_silent_comes_back(self):
        ready = lambda: {one["type"]: one["status"] for one in self.get("node", "node-2")["status"]["conditions"]}["Ready"]
        cluster.kubectl("annotate", "node", "node-2", "process-node.tensor-fusion.ai/gone=true")
        try:
            await_value(lambda: ready() == "Unknown", 120, "nobody notices", every=1)
        finally:
            cluster.kubectl("annotate", "node", "node-2", "process-node.tensor-fusion.ai/gone-")
        await_value(lambda: ready() == "True", 60, "it does not come back", every=1)

    def test_killed_agent_adopts_its_pods(self):
        self.make(workload("Deployment", "stay", 6, {"containers": [shell("exec sleep 1000")], "terminationGracePeriodSeconds": 1}),
                  pod("works", shell("sleep 3; exit 5"), restartPolicy="Never"))
        cluster.kubectl("rollout", "status", "deployment/stay", "--timeout=60s")
        pods = json.loads(cluster.kubectl("get", "pods", "-l", "app=stay", "-o", "json").stdout)["items"]
        uids = [one["metadata"]["uid"] for one in pods]
        before = {uid: processes(uid) for uid in uids}
        self.assertTrue(all(len(found) == 2 for found in before.values()), before)
        for _ in range(3):
            agent = cluster.parts()["process-node"]["pid"]
            os.kill(agent, signal.SIGKILL)
            await_value(lambda: cluster.parts()["process-node"]["pid"] not in (0, agent), 60, "no new agent")
        # One that ended while no agent, or another one, looked: its exit code is known.
        self.await_phase("works", "Failed")
        self.assertEqual(self.status("works")["state"]["terminated"]["exitCode"], 5)
        # Who answers for the containers now is the new agent.
        name = pods[0]["metadata"]["name"]
        await_value(lambda: self.exec(name, "true").returncode == 0, 60, "exec does not work any more")
        self.assertEqual({uid: processes(uid) for uid in uids}, before, "the same processes, and no second ones")
        for one in pods:
            self.assertEqual(self.status(one["metadata"]["name"])["restartCount"], 0)
        # It still ends them.
        cluster.kubectl("delete", "deployment", "stay", "--cascade=foreground", "--timeout=60s")
        await_value(lambda: not any(processes(uid) for uid in uids), 60, "processes are left")

    def test_an_end_that_the_server_never_heard_of_is_told_by_the_next_agent(self):
        # The address that a new agent would give first is free by then, and not the one of this pod.
        self.make(pod("first", shell("exec sleep 1000"), nodeName="node-0", terminationGracePeriodSeconds=0))
        self.await_ready("first")
        self.make(pod("silent", shell("exec sleep 1000"), nodeName="node-0", restartPolicy="Never"))
        found = self.await_ready("silent")
        cluster.kubectl("delete", "pod", "first", "--timeout=60s")
        uid, address = found["metadata"]["uid"], found["status"]["podIP"]
        given_back = os.path.join(cluster.folder, "nodes", "pods", uid, "address")
        self.assertTrue(os.path.exists(given_back))
        server = cluster.parts()["kube-apiserver"]["pid"]
        agent = cluster.parts()["process-node"]["pid"]
        os.kill(server, signal.SIGSTOP)
        try:
            for pid in processes(uid):
                if not os.readlink(f"/proc/{pid}/exe").endswith("process-shim"):
                    os.kill(pid, signal.SIGKILL)
            await_value(lambda: not os.path.exists(given_back), 60, "its address is not given back")
            os.kill(agent, signal.SIGKILL)
        finally:
            os.kill(server, signal.SIGKILL)  # with what it was sent meanwhile; it is started again
        self.assertEqual(self.await_phase("silent", "Failed")["status"]["podIP"], address)
        self.assertEqual(self.status("silent")["state"]["terminated"]["exitCode"], 137)

    def test_killed_shim_takes_its_container_along(self):
        self.make(pod("bare", shell("sleep 1000 & sleep 1001")))
        uid = self.await_ready("bare")["metadata"]["uid"]
        shims = [pid for pid in processes(uid) if os.readlink(f"/proc/{pid}/exe").endswith("process-shim")]
        self.assertEqual(len(shims), 1)
        before = processes(uid)
        os.kill(shims[0], signal.SIGKILL)
        await_value(lambda: self.status("bare")["restartCount"] == 1 and self.status("bare")["ready"], 60, "it is not restarted")
        self.assertFalse(set(before.items()) & set(processes(uid).items()), "nothing of the first run is left")
        self.assertEqual(self.status("bare")["lastState"]["terminated"]["reason"], "ContainerStatusUnknown")


if __name__ == "__main__":
    unittest.main(verbosity=2)
