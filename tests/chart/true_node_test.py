#!/usr/bin/env python3
"""The chart on a true node: containers from the images of `make images`, pods reached through Services, the rights of the chart and no
more.

Usage: true_node_test.py BUILD_FOLDER [unittest's arguments]
"""
import os
import pathlib
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "kubernetes")]
from install import Installation, check_lifecycle  # noqa: E402  pylint: disable=wrong-import-position
from rig import images  # noqa: E402  pylint: disable=wrong-import-position
from served_chart import ROOT, ServedChart, built, helm_program  # noqa: E402  pylint: disable=wrong-import-position
from support import ClusterTest, Machine  # noqa: E402  pylint: disable=wrong-import-position

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
ALERTMANAGER = "quay.io/prometheus/alertmanager:v0.28.1"  # the name that the chart asks for


class TrueNode(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.before = Machine()
        cls.names = [name for name in ("operator", "hypervisor", "worker", "client")
                     if name == "client" or (BUILD / f"bin/tensor-fusion-{name}").exists()]
        subprocess.run([ROOT / "tools/images", *cls.names], check=True, env={**os.environ, "TF_BUILD": str(BUILD)})
        cls.cluster = cls.up("chart", "--profile", "node")
        for name in cls.names:
            cls.tool("load", "--name", "chart", str(BUILD / f"images/{name}.tar"))
        archive = cls.home / "alertmanager.tar"
        with open(archive, "wb") as stream:
            images.write_image(stream, ALERTMANAGER, {"bin/alertmanager": built("alertmanager")})
        cls.tool("load", "--name", "chart", str(archive))

    def test_the_images_run(self):
        commands = {"operator": ["tensor-fusion-operator", "--help"], "hypervisor": ["tensor-fusion-hypervisor", "--help"],
                    "worker": ["tensor-fusion-worker", "--help"],
                    "client": ["cp", "-rv", "/opt/tensor-fusion/lib/client", "/tmp/to"]}
        client = self.api(self.cluster)
        self.wait("the service account", lambda: client.get("ServiceAccount", "default", "default"))
        for name in self.names:
            client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": {
                "restartPolicy": "Never", "containers": [{
                    "name": "main", "image": f"docker.io/tensorfusion/tensor-fusion-{name}:0.1.0", "imagePullPolicy": "IfNotPresent",
                    "command": commands[name], "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
                    "securityContext": {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False,
                                        "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": name != "hypervisor"}}],
                "volumes": [{"name": "tmp", "emptyDir": {}}]}})
        for name in self.names:
            def phase(name=name):
                return client.get("Pod", "default", name)["status"].get("phase")
            self.wait(f"{name} ends", lambda: phase() in ("Succeeded", "Failed"))
            said = self.kubectl(self.cluster, "logs", name)
            self.assertEqual(phase(), "Succeeded", f"{name}: {said}")
            self.assertIn("libcuda.so.1" if name == "client" else f"tensor-fusion-{name}", said)

    def test_lifecycle(self):
        with ServedChart() as chart:
            environment = {**os.environ, **self.kubectl_environment(self.cluster)}
            environment["PATH"] = f"{self.cluster.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
            # There is one image of the operator, whatever the chart's version is.
            simulated = {"TF_SIM_GPUS": "A100-80G:1", "TF_NVML_LIB_PATH": "/opt/tensor-fusion/lib/sim/libnvidia-ml.so.1"}
            values = ["--set", "controller.image.tag=0.1.0"]
            for i, (name, value) in enumerate(simulated.items()):
                values += ["--set", f"cluster.pool.hypervisorEnv[{i}].name={name},cluster.pool.hypervisorEnv[{i}].value={value}"]
            installation = Installation(helm_program(), chart, environment, values)
            installation.kubectl("label", "node", "--all", "nvidia.com/gpu.present=true")
            check_lifecycle(self, installation, cards=1)


if __name__ == "__main__":
    unittest.main()
