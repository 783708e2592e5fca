#!/usr/bin/env python3
"""The chart without a cluster: what it says of values, and what it renders. expected/*.txt are what a person reads in a review; --write
makes them anew."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import yaml

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from served_chart import CHART, ServedChart, copy_of_chart, helm_program  # noqa: E402  pylint: disable=wrong-import-position

EXPECTED = pathlib.Path(__file__).resolve().parent / "expected"
KUBERNETES = "v1.36.3"
WRITE = "--write" in sys.argv


def helm(*arguments, check=True):
    done = subprocess.run([HELM, *map(str, arguments)], capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"helm {' '.join(map(str, arguments))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def template(*arguments, chart=CHART, check=True, namespace="tensor-fusion-sys"):
    done = helm("template", "tensor-fusion-sys", chart, "--namespace", namespace, "--kube-version", KUBERNETES, *arguments, check=check)
    return done if not check else [document for document in yaml.safe_load_all(done.stdout) if document]


def name_of(item):
    return f"{item['kind']} {item['metadata']['name']}"


def pod_templates(item):
    """(where, pod spec) of all pods that come of an object: of workloads, and of the components of pools."""
    spec = item.get("spec", {})
    if "template" in spec:
        yield name_of(item), spec["template"]["spec"]
    for pool in spec.get("gpuPools", []):
        for component, config in pool["specTemplate"]["componentConfig"].items():
            if "podTemplate" in config:
                yield f"{name_of(item)} {component}", config["podTemplate"]["template"]["spec"]


def images(value, path=""):
    """path -> image, for all that looks like one: `image`, and what is below `images`."""
    found = {}
    for key, child in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        where = f"{path}.{key}"
        if isinstance(child, str) and (key == "image" or str(key).endswith("Image") or path.endswith(".images")):
            found[where] = child
        found |= images(child, where)
    return found


def without_host(image):
    first, _, rest = image.partition("/")
    return rest if "." in first or ":" in first else image


def summary(documents):
    """One line for each object, and the lines of it that decide what runs with which rights."""
    lines = []
    for item in sorted(documents, key=name_of):
        lines.append(f"{name_of(item)}" + (f" in {item['metadata']['namespace']}" if "namespace" in item["metadata"] else ""))
        for rule in item.get("rules", []) if item["kind"] in ("Role", "ClusterRole") else []:
            names = f" named {', '.join(rule['resourceNames'])}" if "resourceNames" in rule else ""
            resources = ", ".join(f"{resource}.{group}".rstrip(".") for group in rule["apiGroups"] for resource in rule["resources"])
            lines.append(f"  {', '.join(rule['verbs'])}: {resources}{names}")
        for where, pod in pod_templates(item):
            for container in pod["containers"]:
                lines.append(f"  {where.split(' ')[-1]}/{container['name']}: {container.get('image', '-')}")
                lines.append(f"    {' '.join(container.get('command', ['-']) + container.get('args', []))}")
                for variable in container.get("env", []):
                    lines.append(f"    {variable['name']}={variable.get('value', variable.get('valueFrom'))}")
        for webhook in item.get("webhooks", []):
            lines.append(f"  {webhook['name']}: {webhook['failurePolicy']}, {webhook['clientConfig']}")
    return "\n".join(lines) + "\n"


class ChartTest(unittest.TestCase):
    maxDiff = None

    def test_lint(self):
        for values in ([], ["-f", CHART / "values-cn.yaml"], ["-f", CHART / "values-process-node.yaml"]):
            helm("lint", "--strict", "--kube-version", KUBERNETES, CHART, *values)

    def test_what_is_rendered(self):
        cases = {
            "default": [],
            "process-node": ["-f", CHART / "values-process-node.yaml"],
            "many": ["--set", "controller.replicaCount=2,alert.replicaCount=3,license.secretName=my-license", "--set",
                     "rbac.workloadNamespaces={team-a,team-b},rbac.objectNames={settings},controller.crds=check"],
        }
        for case, arguments in cases.items():
            text = summary(template(*arguments))
            file = EXPECTED / f"{case}.txt"
            if WRITE:
                EXPECTED.mkdir(exist_ok=True)
                file.write_text(text, encoding="utf-8")
            with self.subTest(case):
                self.assertEqual(text, file.read_text(encoding="utf-8"), f"{case}: after a change on purpose run chart_test.py --write")

    def test_values_cn_has_the_same_images_from_another_host(self):
        default, china = (dict(pair) for pair in zip(*[
            ((name_of(a), images(a)), (name_of(b), images(b)))
            for a, b in zip(template(), template("-f", CHART / "values-cn.yaml"))]))
        self.assertEqual(default.keys(), china.keys())
        count = 0
        for item, found in default.items():
            self.assertEqual({where: without_host(image) for where, image in found.items()},
                             {where: without_host(image) for where, image in china[item].items()}, item)
            for where, image in found.items():
                count += 1
                self.assertNotEqual(image, china[item][where], f"{item} {where}: the same host")
                self.assertRegex(image, r"^[^/]+\.[^/]+/.+:.+$", f"{item} {where}: host, path and tag")
        # The operator, Alertmanager, three components, three images of the provider.
        self.assertEqual(count, 8)

    def test_every_container_names_its_command(self):
        # Process nodes know no ENTRYPOINT. The worker's and the client's commands are the operator's.
        for item in template():
            for where, pod in pod_templates(item):
                for container in pod["containers"]:
                    if container["name"] != "tensorfusion-worker":
                        self.assertTrue(container.get("command"), f"{where} {container['name']}")

    def test_pods_of_workloads_are_restricted(self):
        for item in template():
            for where, pod in pod_templates(item):
                if item["kind"] not in ("Deployment", "StatefulSet"):
                    continue
                self.assertNotEqual(pod["securityContext"]["runAsUser"], 0, where)
                for container in pod["containers"]:
                    context = container["securityContext"]
                    self.assertEqual((context["runAsNonRoot"], context["readOnlyRootFilesystem"], context["allowPrivilegeEscalation"]),
                                     (True, True, False), where)
                    self.assertEqual(context["capabilities"], {"drop": ["ALL"]}, where)
                    self.assertIn("readinessProbe", container, where)
                    self.assertIn("livenessProbe", container, where)
                    self.assertIn("limits", container["resources"], where)

    def test_strings_stay_strings(self):
        # A tag, a licence's Secret or a value that looks like a number or a boolean.
        documents = template("--set-string", "controller.image.tag=1.0,cluster.images.worker.tag=2,license.secretName=123", "--set-string",
                             "cluster.pool.workerEnv[0].name=A,cluster.pool.workerEnv[0].value=true")
        cluster = next(item for item in documents if item["kind"] == "TensorFusionCluster")
        worker = cluster["spec"]["gpuPools"][0]["specTemplate"]["componentConfig"]["worker"]
        self.assertTrue(worker["image"].endswith(":2"))
        env = {variable["name"]: variable for variable in worker["podTemplate"]["template"]["spec"]["containers"][0]["env"]}
        self.assertEqual(env["TF_ENABLE_LOG"]["value"], "1")
        self.assertEqual(env["A"]["value"], "true")
        self.assertEqual(env["TF_LICENSE"]["valueFrom"]["secretKeyRef"]["name"], "123")

    def test_a_change_of_the_alert_configuration_rolls_alertmanager_alone(self):
        def annotated(*arguments):
            return {name_of(item): item["spec"]["template"]["metadata"].get("annotations") for item in template(*arguments)
                    if item["kind"] in ("Deployment", "StatefulSet")}
        before, after = annotated(), annotated("--set", "alert.alertManagerConfig.route.group_wait=20s")
        changed = {name for name in before if before[name] != after[name]}
        self.assertEqual(changed, {"StatefulSet tensor-fusion-sys-alert-manager"})

    def test_a_new_chart_version_alone_changes_no_pod_of_alertmanager(self):
        def pods(documents):
            return [item["spec"]["template"] for item in documents if item["kind"] == "StatefulSet"]
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(pods(template(chart=copy_of_chart(folder, "0.2.0", "0.2.0"))), pods(template()))

    def test_wrong_values_are_refused_with_their_names(self):
        cases = {
            "controller.replicas=2": "additional properties 'replicas' not allowed",
            "controller.replicaCount=0": "at '/controller/replicaCount': minimum: got 0, want 1",
            "cluster.pool.rollingUpdatePolicy.batchPercentage=0": "at '/cluster/pool/rollingUpdatePolicy/batchPercentage'",
            "cluster.pool.rollingUpdatePolicy.batchPercentage=101": "at '/cluster/pool/rollingUpdatePolicy/batchPercentage'",
            "cluster.pool.rollingUpdatePolicy.batchInterval=soon": "at '/cluster/pool/rollingUpdatePolicy/batchInterval'",
            "cluster.pool.defaultIsolationMode=hrad": "value must be one of 'shared', 'soft', 'hard', 'partitioned'",
            "cluster.pool.workerEnv[0].name=A,cluster.pool.workerEnv[0].vaule=b": "additional properties 'vaule' not allowed",
            "initialGpuNodeLabelSelector=a=b=c": "at '/initialGpuNodeLabelSelector'",
            "controller.admissionWebhooks.via=URL": "value must be one of 'Service', 'PodAddress'",
            "agent.agentId=org:env": 'agent.agentId is "org:env": there is no cloud agent in this project; leave it ""',
        }
        for setting, message in cases.items():
            with self.subTest(setting):
                done = template("--set", setting, check=False)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(message, done.stderr)

    def test_the_seeds_agent_id(self):
        self.assertEqual(template("--set", 'agent.agentId='), template())

    def test_names_follow_the_release(self):
        done = helm("template", "mine", CHART, "--namespace", "other", "--kube-version", KUBERNETES)
        documents = [item for item in yaml.safe_load_all(done.stdout) if item]
        names = {name_of(item) for item in documents}
        self.assertIn("Deployment mine-tensor-fusion-controller-manager", names)
        self.assertEqual({item["metadata"].get("namespace", "other") for item in documents}, {"other"})

    def test_rights_name_every_kind_of_the_chart(self):
        role = next(item for item in template() if name_of(item) == "ClusterRole tensor-fusion-sys-role")
        named = next(set(rule["resourceNames"]) for rule in role["rules"] if rule["resources"] == ["customresourcedefinitions"])
        defined = {yaml.safe_load(file.read_text(encoding="utf-8"))["metadata"]["name"] for file in (CHART / "crds").glob("*.yaml")}
        self.assertEqual(named, defined)
        self.assertEqual(len(defined), 12)

    def test_no_secret_is_readable_outside_of_the_named_namespaces(self):
        readable = {}
        for item in template("--set", "rbac.workloadNamespaces={team-a}"):
            for rule in item.get("rules", []):
                if "secrets" in rule["resources"]:
                    readable[f"{item['kind']} in {item['metadata'].get('namespace')}"] = item
        self.assertEqual(set(readable), {"Role in tensor-fusion-sys", "Role in team-a"})

    def test_alert_rules_are_rules(self):
        rules = next(item for item in template() if item["kind"] == "ConfigMap")["data"]["tensor-fusion.rules.yaml"]
        parsed = [rule for group in yaml.safe_load(rules)["groups"] for rule in group["rules"]]
        self.assertEqual(rules.strip(), (CHART / "files/alert-rules.yaml").read_text(encoding="utf-8").strip())
        for rule in parsed:
            self.assertTrue(re.match(r"^TensorFusion\w+$", rule["alert"]))
            self.assertIn("severity", rule["labels"])

    def test_packed_and_served(self):
        with ServedChart(HELM) as served:
            served.add("0.2.0")
            listed = helm("show", "chart", "tensor-fusion", "--repo", served.url).stdout
            self.assertIn("version: 0.2.0", listed)
            shown = helm("template", "tensor-fusion-sys", "tensor-fusion", "--repo", served.url, "--version", "0.1.0", "--kube-version",
                         KUBERNETES, "-f", served.url + "/values-cn.yaml", "--set", "agent.agentId=").stdout
            self.assertNotIn("docker.io", shown)


if __name__ == "__main__":
    if WRITE:
        sys.argv.remove("--write")
    HELM = helm_program()
    unittest.main()
