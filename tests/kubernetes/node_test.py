#!/usr/bin/env python3
"""What a true node must do, beside simulated ones in the same cluster."""
import json
import re
import shutil
import subprocess
import sys
import time
import unittest
import urllib.request

from support import ClusterTest, Machine, condition, parts, rig, wait_for
from rig import images
from rig.certificates import Authority

NAMESPACE = "test"


def pod(name, script, **spec):
    """A pod of busybox that runs a shell script."""
    container = {"name": "main", "image": images.BUSYBOX, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", script]}
    container |= spec.pop("container", {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": name}},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec}}


def deployment(name, script, replicas, container=(), **spec):
    template = pod(name, script, container=dict(container), **spec)
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": template["spec"]}}}


def service(name, port, target):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"selector": {"app": name}, "ports": [{"port": port, "targetPort": target}]}}


def named(kind, name, **fields):
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, **fields}


class NodeTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.before = Machine()
        cls.cluster = cls.up("node", "--profile", "node", "--profile", "crowd", "--nodes", "20")
        cls.client = cls.api(cls.cluster)
        cls.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        wait_for("the service account", lambda: cls.client.get("ServiceAccount", NAMESPACE, "default"), 60)

    def run_pod(self, *pods):
        self.client.create(*pods)
        for item in pods:
            self.wait_ready(item["metadata"]["name"])

    def wait_ready(self, name):
        self.wait(f"pod {name} Ready", lambda: condition(self.client.get("Pod", NAMESPACE, name), "Ready") == "True")

    def wait_available(self, name):
        def available():
            item = self.client.get("Deployment", NAMESPACE, name)
            return item.get("status", {}).get("readyReplicas", 0) == item["spec"]["replicas"]
        self.wait(f"deployment {name} available", available)

    def execute(self, name, script):
        return self.kubectl(self.cluster, "-n", NAMESPACE, "exec", name, "--", "sh", "-c", script)

    def finished(self, name):
        """The terminated state of a pod that ends."""
        self.wait(f"pod {name} finished", lambda: self.client.get("Pod", NAMESPACE, name)["status"].get("phase") in ("Succeeded", "Failed"))
        return self.client.get("Pod", NAMESPACE, name)["status"]["containerStatuses"][0]["state"]["terminated"]

    def logs(self, name):
        return self.kubectl(self.cluster, "-n", NAMESPACE, "logs", name)

    def test_nodes_are_ready(self):
        nodes = {node["metadata"]["name"]: node for node in self.client.items("Node")}
        self.assertEqual(len(nodes), 21)
        self.assertEqual({condition(node, "Ready") for node in nodes.values()}, {"True"})
        info = nodes[parts.NODE]["status"]["nodeInfo"]
        self.assertRegex(info["kubeletVersion"], r"^v1\.36\.")
        self.assertRegex(info["containerRuntimeVersion"], r"^containerd://")

    def test_kubectl_works_inside_and_outside(self):
        inside = self.tool("exec", "--name", "node", "--", "kubectl", "get", "nodes", "-o", "name")
        self.assertEqual(inside, self.kubectl(self.cluster, "get", "nodes", "-o", "name"))
        self.assertIn(f"node/{parts.NODE}", inside)
        self.assertEqual(self.cluster.description().kubeconfig.stat().st_mode & 0o777, 0o600)

    def test_exec_gives_back_the_exit_status(self):
        result = subprocess.run([sys.executable, rig.TOOL, "exec", "--name", "node", "--", "sh", "-c", "exit 7"], check=False)
        self.assertEqual(result.returncode, 7)

    def test_a_pod_with_its_volumes_logs_and_exec(self):
        self.client.create(
            named("ConfigMap", "settings", data={"colour": "green"}),
            named("Secret", "password", stringData={"word": "sesame"}))
        self.run_pod(pod(
            "volumes", "cat /settings/colour; echo; echo $WORD; while true; do cat /projected/count; sleep 1; done",
            container={
                "env": [{"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "password", "key": "word"}}},
                        {"name": "POD_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
                "volumeMounts": [{"name": "settings", "mountPath": "/settings"}, {"name": "password", "mountPath": "/password"},
                                 {"name": "projected", "mountPath": "/projected"}, {"name": "scratch", "mountPath": "/scratch"}],
                "readinessProbe": {"exec": {"command": ["test", "-s", "/projected/token"]}, "periodSeconds": 1},
            },
            volumes=[
                {"name": "settings", "configMap": {"name": "settings"}},
                {"name": "password", "secret": {"secretName": "password", "defaultMode": 0o400}},
                {"name": "scratch", "emptyDir": {"medium": "Memory"}},
                {"name": "projected", "projected": {"sources": [
                    {"serviceAccountToken": {"path": "token", "audience": "tensor-fusion", "expirationSeconds": 600}},
                    {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                    {"configMap": {"name": "settings", "items": [{"key": "colour", "path": "count"}]}}]}},
            ]))
        self.assertRegex(self.logs("volumes"), r"^green\nsesame\n(green)*$")
        self.assertEqual(self.execute("volumes", "cat /password/word"), "sesame")
        self.assertEqual(self.execute("volumes", "cat /projected/name"), "volumes")
        self.assertEqual(self.execute("volumes", "echo $POD_NODE"), parts.NODE + "\n")
        self.assertRegex(self.execute("volumes", "cat /projected/token"), r"^[\w-]+\.[\w-]+\.[\w-]+$")
        self.assertIn("tmpfs /scratch", self.execute("volumes", "grep scratch /proc/mounts"))
        sent = self.kubectl(self.cluster, "-n", NAMESPACE, "exec", "-i", "volumes", "--", "cat", data="through standard input\n")
        self.assertEqual(sent, "through standard input\n")
        follow = subprocess.run(["timeout", "--foreground", "3", self.cluster.folder / "bin/kubectl", "-n", NAMESPACE, "logs", "-f", "volumes"],
                                capture_output=True, text=True, check=False,
                                env=self.kubectl_environment(self.cluster))
        self.assertIn("sesame", follow.stdout)

    def test_exit_statuses_are_reported(self):
        self.client.create(pod("fails", "echo before the end; exit 3", restartPolicy="Never"))
        state = self.finished("fails")
        self.assertEqual((state["exitCode"], state["reason"]), (3, "Error"))
        self.assertEqual(self.logs("fails"), "before the end\n")

    def test_a_memory_limit_holds(self):
        self.client.create(pod("hungry", "tail /dev/zero", restartPolicy="Never",
                               container={"resources": {"limits": {"memory": "24Mi"}}}))
        self.assertEqual(self.finished("hungry")["reason"], "OOMKilled")

    def test_an_image_that_is_nowhere_is_named(self):
        self.client.create(pod("missing", "true", container={"image": "tensor-fusion.local/nowhere:1"}))

        def waits():
            statuses = self.client.get("Pod", NAMESPACE, "missing")["status"].get("containerStatuses")
            return statuses and statuses[0]["state"].get("waiting", {}).get("reason") in ("ErrImagePull", "ImagePullBackOff")
        self.wait("ErrImagePull", waits)

    def test_an_image_can_be_loaded(self):
        archive = self.home / "own.tar"
        with open(archive, "wb") as stream:
            images.write_image(stream, "tensor-fusion.local/own:1", images.program_files(shutil.which("echo")), entrypoint=["echo", "our own image"])
        self.tool("load", "--name", "node", str(archive))
        self.client.create(pod("own", "", restartPolicy="Never", container={"image": "tensor-fusion.local/own:1", "command": None}))
        self.assertEqual(self.finished("own")["exitCode"], 0)
        self.assertEqual(self.logs("own"), "our own image\n")

    def test_a_service_is_reached_by_its_name(self):
        serve = "hostname > /tmp/index.html; exec httpd -f -p 8080 -h /tmp"
        self.client.create(
            deployment("web", serve, 2, container={"readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}}),
            service("web", 80, 8080))
        self.wait_available("web")
        self.run_pod(pod("caller", "sleep 3600"))
        expected = {item["metadata"]["name"] for item in self.client.items("Pod", NAMESPACE, "?labelSelector=app%3Dweb")}
        met = set()
        ask = lambda url: f"timeout 5 wget -qO- {url}"

        def both_answer():
            # A full name and, by the search list of the pod, a short one.
            met.update(self.execute("caller", f"{ask('http://web.test.svc.cluster.local')}; {ask('http://web')}").split())
            return met == expected
        self.wait("answers of both pods", both_answer)
        # A pod that goes is no longer asked.
        self.kubectl(self.cluster, "-n", NAMESPACE, "scale", "deployment/web", "--replicas=0")
        self.wait("no endpoint", lambda: "refused" in self.execute("caller", f"{ask('http://web')} 2>&1 || true"))

    def test_a_port_is_forwarded(self):
        self.run_pod(pod("forwarded", "echo a page > /tmp/index.html; exec httpd -f -p 8080 -h /tmp",
                         container={"readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}}))
        forward = subprocess.Popen([self.cluster.folder / "bin/kubectl", "-n", NAMESPACE, "port-forward", "pod/forwarded", ":8080"],
                                   stdout=subprocess.PIPE, text=True, env=self.kubectl_environment(self.cluster))
        self.addCleanup(forward.communicate)
        self.addCleanup(forward.kill)
        port = re.match(r"Forwarding from 127\.0\.0\.1:(\d+) ", forward.stdout.readline())[1]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as page:
            self.assertEqual(page.read(), b"a page\n")

    def test_a_pod_reaches_the_api_server_with_its_service_account(self):
        rules = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "reads", "namespace": NAMESPACE}}
        self.client.create(
            named("ServiceAccount", "reads"),
            rules | {"kind": "Role", "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]},
            rules | {"kind": "RoleBinding", "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reads"},
                     "subjects": [{"kind": "ServiceAccount", "name": "reads", "namespace": NAMESPACE}]})
        wait_for("the role", lambda: self.client.get("Role", NAMESPACE, "reads"), 10)
        self.run_pod(pod("api-caller", "sleep 3600", serviceAccountName="reads",
                         container={"volumeMounts": [{"name": "kubectl", "mountPath": "/kubectl"}]},
                         volumes=[{"name": "kubectl", "hostPath": {"path": self.cluster.description().controlplane}}]))
        self.assertIn("pod/api-caller", self.execute("api-caller", "/kubectl get pods -o name"))
        said = self.execute("api-caller", "/kubectl get secrets 2>&1 || true")
        self.assertIn(f"system:serviceaccount:{NAMESPACE}:reads", said)
        self.assertIn("orbidden", said)

    def test_a_webhook_is_called_through_its_service(self):
        authority = Authority(self.home / "webhook")
        authority.issue("server", "hook", names=[f"DNS:hook.{NAMESPACE}.svc"])
        script = rig.ROOT / "tests/kubernetes/webhook.py"
        self.client.create(
            # The machine's own Python, in a pod's network.
            deployment("hook", "", 1, container={
                "command": ["chroot", "/machine", sys.executable, str(script), f"{authority.folder}/server.crt", f"{authority.folder}/server.key", "8443"],
                "volumeMounts": [{"name": "machine", "mountPath": "/machine"}],
                "readinessProbe": {"tcpSocket": {"port": 8443}, "periodSeconds": 1},
            }, volumes=[{"name": "machine", "hostPath": {"path": "/"}}]),
            service("hook", 443, 8443))
        self.wait_available("hook")
        bundle = subprocess.run(["base64", "-w0", authority.folder / "ca.crt"], capture_output=True, text=True, check=True).stdout
        self.client.create({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": "hook"},
            "webhooks": [{
                "name": "hook.tensor-fusion.ai", "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
                "clientConfig": {"service": {"name": "hook", "namespace": NAMESPACE, "port": 443}, "caBundle": bundle},
                "objectSelector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
            }]})
        self.addCleanup(self.client.request, "DELETE", self.client.path("MutatingWebhookConfiguration", name="hook"))

        def labelled():
            name = f"hooked-{time.monotonic_ns()}"
            self.client.create(named("ConfigMap", name))
            return self.client.get("ConfigMap", NAMESPACE, name)["metadata"].get("labels") == {"seen-by": "webhook"}
        self.wait("a labelled object", labelled)

    def test_true_and_simulated_pods_live_side_by_side(self):
        self.client.create(
            deployment("true-pods", "sleep 3600", 4),
            deployment("simulated", "sleep 3600", 40, nodeSelector={"type": "kwok"},
                       tolerations=[{"key": "kwok.x-k8s.io/node", "operator": "Exists"}]))
        self.wait_available("true-pods")
        self.wait_available("simulated")
        where = lambda app: {item["spec"]["nodeName"] for item in self.client.items("Pod", NAMESPACE, f"?labelSelector=app%3D{app}")}
        self.assertEqual(where("true-pods"), {parts.NODE})
        self.assertGreater(len(where("simulated")), 10)
        self.assertNotIn(parts.NODE, where("simulated"))

    def test_helm_installs_a_chart(self):
        chart = self.home / "chart"
        (chart / "templates").mkdir(parents=True)
        (chart / "Chart.yaml").write_text("apiVersion: v2\nname: small\nversion: 1.0.0\n")
        (chart / "values.yaml").write_text("colour: red\n")
        (chart / "templates/map.yaml").write_text(json.dumps(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "from-chart"}, "data": {"colour": "{{ .Values.colour }}"}}))
        helm = ("exec", "--name", "node", "--", "helm", "-n", NAMESPACE)
        self.tool(*helm, "install", "small", str(chart), "--set", "colour=blue", "--wait")
        self.assertEqual(self.client.get("ConfigMap", NAMESPACE, "from-chart")["data"], {"colour": "blue"})
        self.assertIn("small-1.0.0", self.tool(*helm, "list"))
        self.tool(*helm, "uninstall", "small")

    def test_status_lists_the_parts(self):
        text = self.tool("status", "--name", "node")
        for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "containerd", "kubelet", "kube-proxy", "kwok"):
            self.assertRegex(text, rf"(?m)^  {name} +pid [1-9]\d* +[1-9]\d* MiB$")
        self.assertRegex(text, r"21 of 21 nodes")
        print(text)

    def test_the_machine_is_left_alone(self):
        # What the cluster mounts, binds, names and sets stays within its own namespaces, while it runs too.
        self.assertEqual(Machine().left_since(self.before, "/nonexistent"), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
