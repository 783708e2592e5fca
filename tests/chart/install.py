"""What the tests of the installed chart share: the seed's way of installing it, on any cluster, and what must hold there."""
import base64
import json
import os
import subprocess
import threading
import time
import urllib.request

NAMESPACE = "tensor-fusion-sys"
RELEASE = "tensor-fusion-sys"
DEPLOYMENT = "deployment/tensor-fusion-sys-controller-manager"
WEBHOOK = "tensor-fusion-sys-validating-webhook"
SYSTEM_PODS = ("-l", "tensor-fusion.ai/component in (operator,alert-manager)")
ALL_HYPERVISORS = ("-n", NAMESPACE, "pod", "-l", "tensor-fusion.ai/component=hypervisor")
# What stays after an uninstall, as docs/install.md says: kept on purpose, or made by the operator.
KEPT = {"TensorFusionCluster", "GPUPool", "GPUNode", "GPU", "ProviderConfig", "SchedulingConfigTemplate"}


class Installation:
    """Helm and kubectl on one cluster. ENVIRONMENT has KUBECONFIG and a PATH with kubectl; VALUES are arguments of each install."""

    def __init__(self, helm, chart, environment, values=()):
        self.helm_program, self.chart, self.environment, self.values = helm, chart, dict(environment), list(values)
        home = os.path.join(chart.folder, "home")
        os.makedirs(home, exist_ok=True)
        self.environment["HOME"] = home  # Helm's caches

    def run(self, *command, data=None, check=True, timeout=300):
        done = subprocess.run(list(map(str, command)), input=data, capture_output=True, text=True, check=False, timeout=timeout,
                              env=self.environment)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}\n{self.state()}")
        return done

    def helm(self, *arguments, **options):
        return self.run(self.helm_program, *arguments, **options)

    def kubectl(self, *arguments, **options):
        return self.run("kubectl", *arguments, **options)

    def upgrade(self, *arguments, version=None, **options):
        """As the component-update page has it."""
        return self.helm("upgrade", "--install", "--create-namespace", "--namespace", NAMESPACE, "--repo", self.chart.url,
                         *(["--version", version] if version else []), *self.values, *arguments, RELEASE, "tensor-fusion", **options)

    def rollout_status(self, what=DEPLOYMENT, timeout=180):
        return self.kubectl("-n", NAMESPACE, "rollout", "status", what, f"--timeout={timeout}s", timeout=timeout + 30).stdout

    def get(self, *arguments):
        return json.loads(self.kubectl("get", "-o", "json", *arguments).stdout)

    def state(self):
        """For messages of failures."""
        text = ""
        for command in (["-n", NAMESPACE, "get", "pod", "-o", "wide"], ["get", "events", "-A", "--sort-by=.lastTimestamp"],
                        ["-n", NAMESPACE, "logs", DEPLOYMENT, "--tail=40"]):
            done = subprocess.run(["kubectl", *command], capture_output=True, text=True, check=False, timeout=60, env=self.environment)
            text += f"--- kubectl {' '.join(command)}\n" + "\n".join((done.stdout + done.stderr).splitlines()[-40:]) + "\n"
        return text

    def await_value(self, what, ask, timeout=120):
        end = time.monotonic() + timeout
        while True:
            value = ask()
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"after {timeout} s: {what}\n{self.state()}")
            time.sleep(0.2)

    def refused_requests(self):
        """What the API server refused the operators for want of rights, as their metrics count it; each pod of them is asked."""
        def settled():
            pods = self.get("-n", NAMESPACE, "pod", "-l", "tensor-fusion.ai/component=operator")["items"]
            return None if any("deletionTimestamp" in pod["metadata"] for pod in pods) else pods

        lines = []
        for pod in self.await_value("a pod of the operator is still ending", settled):
            address = pod["status"].get("podIP", "")
            if address.startswith("127."):  # which the API server gives nobody a way to
                with urllib.request.urlopen(f"http://{address}:8081/metrics", timeout=30) as answer:
                    page = answer.read().decode()
            else:
                page = self.kubectl("get", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}:8081/proxy/metrics").stdout
            if "rest_client_requests_total" not in page:
                raise AssertionError(f"no metrics of {pod['metadata']['name']}:\n{page[:2000]}")
            lines += [line for line in page.splitlines() if line.startswith("rest_client_requests_total") and 'code="403"' in line]
        return lines

    def bundles(self):
        configuration = self.get("validatingwebhookconfiguration", WEBHOOK)
        return [base64.b64decode(webhook["clientConfig"].get("caBundle", "")).decode() for webhook in configuration["webhooks"]]

    def authority(self):
        secret = self.get("-n", NAMESPACE, "secret", "tensor-fusion-webhook-secret")
        return base64.b64decode(secret["data"]["ca.crt"]).decode()

    def with_window(self, zone):
        """The TensorFusionCluster with an enforced maintenance window in a time zone."""
        cluster = self.get("tensorfusioncluster", "tensor-fusion")
        policy = cluster["spec"]["gpuPools"][0]["specTemplate"]["nodeManagerConfig"]["nodePoolRollingUpdatePolicy"]
        policy["maintenanceWindow"] = {"enforced": True, "includes": ["0 2 * * 6"], "timeZone": zone}
        return json.dumps(cluster)

    def refuses_nonsense(self):
        """The webhook answers, and the API server trusts it: what it refuses is refused."""
        done = self.kubectl("apply", "--dry-run=server", "-f", "-", data=self.with_window("Mars/Olympus"), check=False)
        return done.returncode != 0 and "Mars/Olympus" in done.stderr

    def everything(self):
        """Kind, namespace and name of all objects of the cluster that people or programs make, but for events and what Kubernetes
        makes by itself."""
        kinds = self.kubectl("api-resources", "--verbs=list", "-o", "name").stdout.split()
        kinds = [kind for kind in kinds if not kind.startswith(("events", "componentstatuses", "leases", "endpoints", "nodes", "csinodes"))
                 and not kind.endswith("metrics.k8s.io") and "flowcontrol" not in kind and "apiregistration" not in kind]
        listed = self.kubectl("get", "-A", "-o", "json", ",".join(kinds)).stdout
        found = set()
        for item in json.loads(listed)["items"]:
            metadata = item["metadata"]
            if metadata["name"] != "kube-root-ca.crt" and not (item["kind"] == "ServiceAccount" and metadata["name"] == "default"):
                found.add((item["kind"], metadata.get("namespace", ""), metadata["name"]))
        return found


class Watched:
    """Asks again and again, on a thread, whether the webhook configuration has the operator's authority; what is wrong at any moment
    is in `gaps`."""

    def __init__(self, installation):
        self.installation, self.gaps, self.looks = installation, [], 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._stop.wait(0.3):
            try:
                newest = self.installation.authority().split("-----END")[0]
                bundles = self.installation.bundles()
            except (AssertionError, KeyError, ValueError, subprocess.TimeoutExpired) as error:
                self.gaps.append(str(error)[:500])
                continue
            self.looks += 1
            if not all(newest in bundle for bundle in bundles):
                self.gaps.append(f"{bundles} lacks {newest}")

    def close(self):
        self._stop.set()
        self._thread.join()


def check_lifecycle(test, installation, cards):
    """install → upgrade → rollback → uninstall. Process nodes and the true node differ in nothing here but the values. CARDS: how many
    the nodes of the pool have together."""
    chart = installation.chart
    before = installation.everything()
    done = installation.upgrade()
    test.assertIn("kubectl -n tensor-fusion-sys rollout status deployment/tensor-fusion-sys-controller-manager", done.stdout)
    test.assertIn("successfully rolled out", installation.rollout_status())
    installation.rollout_status("statefulset/tensor-fusion-sys-alert-manager")
    pods = installation.get("-n", NAMESPACE, "pod", "-l", "tensor-fusion.ai/component=alert-manager")["items"]
    test.assertEqual([pod["status"]["phase"] for pod in pods], ["Running"])
    installation.await_value("the pool", lambda: installation.kubectl("get", "gpupool", "tensor-fusion-shared", check=False).returncode == 0)
    # With the rights of the chart, hypervisors come and publish their cards.
    installation.await_value("the cards", lambda: installation.get("gpupool", "tensor-fusion-shared").get("status", {}).get("totalGPUs") == cards)
    installation.await_value("the hypervisors are ready", lambda: installation.kubectl(
        "-n", NAMESPACE, "wait", "pod", "-l", "tensor-fusion.ai/component=hypervisor", "--for=condition=Ready", "--timeout=10s",
        check=False).returncode == 0)

    # The webhook: refuses with the field, and says what would be lost.
    installation.await_value("the webhook refuses", installation.refuses_nonsense)
    done = installation.kubectl("apply", "--dry-run=server", "-f", "-", data=installation.with_window("Europe/Berlin"))
    typo = [{"op": "add", "path": "/spec/gpuPools/0/specTemplate/componentConfig/worker/podTemplate/template/spec/containers/0/env/-",
             "value": {"name": "TF_LICENSE_SIGN", "vaule": "x"}}]
    done = installation.kubectl("patch", "tensorfusioncluster", "tensor-fusion", "--type=json", "--dry-run=server", "-p", json.dumps(typo))
    test.assertIn('vaule: there is no such field, it has no effect; did you mean "value"?', done.stderr)

    # A change by hand, then an upgrade to a newer chart and back: the change stays, and the webhook works at every moment.
    hand = [{"op": "add", "path": "/spec/gpuPools/0/specTemplate/componentConfig/worker/podTemplate/template/spec/containers/0/env/-",
             "value": {"name": "BY_HAND", "value": "1"}}]
    installation.kubectl("patch", "tensorfusioncluster", "tensor-fusion", "--type=json", "-p", json.dumps(hand))
    pools = installation.get("tensorfusioncluster", "tensor-fusion")["spec"]["gpuPools"]
    chart.add("0.2.0", "0.2.0")
    operator_before = installation.get("-n", NAMESPACE, DEPLOYMENT)["spec"]["template"]
    watched = Watched(installation)
    try:
        done = installation.upgrade("--set", "controller.logLevel=debug,controller.replicaCount=2", version="0.2.0")
        test.assertIn("was changed by hand", done.stdout)
        installation.rollout_status()
        test.assertEqual(installation.get("tensorfusioncluster", "tensor-fusion")["spec"]["gpuPools"], pools)
        installation.await_value("the webhook refuses", installation.refuses_nonsense)
        test.assertEqual(installation.refused_requests(), [])
        test.assertIn("2 ", installation.helm("-n", NAMESPACE, "history", RELEASE).stdout)
        installation.helm("-n", NAMESPACE, "rollback", RELEASE, "1")
        installation.rollout_status()
        test.assertEqual(installation.get("-n", NAMESPACE, DEPLOYMENT)["spec"]["template"], operator_before)
        test.assertEqual(installation.get("tensorfusioncluster", "tensor-fusion")["spec"]["gpuPools"], pools)
        installation.await_value("the webhook refuses", installation.refuses_nonsense)
    finally:
        watched.close()
    test.assertGreater(watched.looks, 5)
    test.assertEqual(watched.gaps, [])

    # The configuration of Alertmanager rolls it, and nothing else.
    uid = {pod["metadata"]["labels"]["tensor-fusion.ai/component"]: pod["metadata"]["uid"]
           for pod in installation.get("-n", NAMESPACE, "pod", *SYSTEM_PODS)["items"] if "tensor-fusion.ai/component" in pod["metadata"]["labels"]}
    installation.upgrade("--set", "alert.alertManagerConfig.route.group_wait=20s", version="0.1.0")
    installation.rollout_status("statefulset/tensor-fusion-sys-alert-manager")
    after = {pod["metadata"]["labels"]["tensor-fusion.ai/component"]: pod["metadata"]["uid"]
             for pod in installation.get("-n", NAMESPACE, "pod", *SYSTEM_PODS)["items"] if "tensor-fusion.ai/component" in pod["metadata"]["labels"]}
    test.assertEqual(after["operator"], uid["operator"])
    test.assertNotEqual(after["alert-manager"], uid["alert-manager"])

    # What somebody takes away is back at once.
    installation.kubectl("patch", "validatingwebhookconfiguration", WEBHOOK, "--type=json", "-p",
                         '[{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]')
    installation.await_value("the CA bundle is back", lambda: installation.authority() in installation.bundles()[0])
    installation.kubectl("-n", NAMESPACE, "delete", "secret", "tensor-fusion-webhook-secret")
    installation.await_value("a new authority", lambda: installation.kubectl(
        "-n", NAMESPACE, "get", "secret", "tensor-fusion-webhook-secret", check=False).returncode == 0)
    installation.await_value("the configuration knows it", lambda: installation.authority() in installation.bundles()[0])
    installation.await_value("the webhook refuses", installation.refuses_nonsense)

    # An old definition, as after `helm upgrade`, which leaves crds/ alone: the operator brings it up to date.
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/license"
    installation.kubectl("patch", "crd", "gpupools.tensor-fusion.ai", "--type=json", "-p", json.dumps([{"op": "remove", "path": path}]))
    installation.kubectl("-n", NAMESPACE, "rollout", "restart", DEPLOYMENT)  # as the page does
    installation.rollout_status()
    crd = installation.get("crd", "gpupools.tensor-fusion.ai")
    test.assertIn("license", crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"])

    # The end. What is kept is what the documentation says, and nobody is in the way of its deletion.
    hypervisors = {pod["metadata"]["uid"] for pod in installation.get(*ALL_HYPERVISORS)["items"]}
    installation.helm("-n", NAMESPACE, "uninstall", RELEASE, "--wait")
    installation.await_value("the pods end", lambda: not installation.get(
        "-n", NAMESPACE, "pod", "-l", "tensor-fusion.ai/component in (operator,alert-manager)")["items"])
    left = {(kind, namespace, name) for kind, namespace, name in installation.everything() - before
            if kind not in KEPT and kind not in ("Pod", "ControllerRevision")}
    test.assertEqual({item for item in left if item[0] != "CustomResourceDefinition"},
                     {("Namespace", "", NAMESPACE), ("Secret", NAMESPACE, "tensor-fusion-webhook-secret"),
                      ("ServiceAccount", NAMESPACE, "tensor-fusion-hypervisor-sa")})
    test.assertEqual(len({item for item in left if item[0] == "CustomResourceDefinition"} |
                         {item for item in before if item[0] == "CustomResourceDefinition" and item[2].endswith("tensor-fusion.ai")}), 12)

    # And back again: what was kept goes on.
    installation.upgrade()
    installation.rollout_status()
    test.assertEqual(installation.get("tensorfusioncluster", "tensor-fusion")["spec"]["gpuPools"], pools)
    test.assertEqual(hypervisors, {pod["metadata"]["uid"] for pod in installation.get(*ALL_HYPERVISORS)["items"]})
    installation.kubectl("delete", "tensorfusioncluster", "tensor-fusion", "--timeout=60s")
    installation.helm("-n", NAMESPACE, "uninstall", RELEASE, "--wait")
