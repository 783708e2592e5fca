"""What the pages run on: process nodes of `tfctl up`, or true nodes (kubelet and containerd) of tools/cluster with our images.

Both have: `kubeconfig`, kubectl(), close(), `values` (defaults of the chart that such nodes need), `idle` (the image of a container that does
nothing), `driver` (where workers find the simulated driver), and check_pod() (a CUDA program in a pod).
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "tests/standalone"), str(ROOT / "tests/chart"), str(ROOT / "tests/kubernetes")]
from cluster import Cluster  # noqa: E402  pylint: disable=wrong-import-position
from rig import cluster as rig  # noqa: E402  pylint: disable=wrong-import-position
from rig import images  # noqa: E402  pylint: disable=wrong-import-position
from served_chart import CHART, built  # noqa: E402  pylint: disable=wrong-import-position


def read_yaml(path):
    return yaml.safe_load(pathlib.Path(path).read_text(encoding="utf-8"))


def variables(**values):
    return [{"name": name, "value": value} for name, value in values.items()]


def program_pod(name, containers, **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"restartPolicy": "Never", "containers": containers, **spec}}


class ProcessNodes(Cluster):
    def __init__(self, build, folder):
        super().__init__(str(build / "bin"), str(folder / "data"))
        self._build = build
        self.idle, self.driver = "local", variables(TF_CUDA_LIB_PATH=str(build / "lib/sim"), TF_NVML_LIB_PATH=str(build / "lib/sim"))
        self.values = read_yaml(CHART / "values-process-node.yaml")
        self.values["cluster"] = {"pool": {"workerEnv": self.driver, "hypervisorEnv": self.driver}}

    def start(self, nodes):
        # The version of Alertmanager that the chart names; built on first use.
        alertmanager = f"alertmanager={os.path.dirname(built('alertmanager'))}"
        self.up("--nodes", str(nodes), "--gpus-per-node", "A100-80G:1", "--image", alertmanager, "--image", "local=/")

    def check_pod(self, worker, megabytes, _):
        """A program on a vGPU of a worker of the pool."""
        link = f"native+{worker['status']['podIP']}+8000+0"
        return program_pod("check", [{"name": "main", "image": "local", "command": [
            self.program("tfctl"), "run", "--connect", link, "--", str(self._build / "examples/out_of_memory"), str(megabytes)]}])


class TrueNodes:
    """The images of `make images` under every name that a page calls them by: TAGS at both hosts of the chart's values files."""

    NAME = "page"
    APPLICATION = images.PREFIX + "cuda-application:1"

    def __init__(self, build, folder, tags):
        self._build, self._folder, self._tags = build, folder, tags
        os.environ["TF_CLUSTERS"] = str(folder / "clusters")
        self._cluster = rig.Cluster(self.NAME)
        self.kubeconfig = str(self._cluster.folder / "kubeconfig")
        self.idle = images.BUSYBOX
        simulated = "/opt/tensor-fusion/lib/sim"
        # Nodes differ in the cards' UUIDs, as machines do.
        self.driver = variables(TF_CUDA_LIB_PATH=simulated, TF_NVML_LIB_PATH=simulated, TF_SIM_GPUS="A100-80G:1") + [
            {"name": "TF_SIM_SEED", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
        self.values = {"cluster": {"pool": {"workerEnv": self.driver, "hypervisorEnv": self.driver}}}

    def start(self, nodes):
        names = ("operator", "hypervisor", "worker", "client")
        subprocess.run([ROOT / "tools/images", *names], check=True, env={**os.environ, "TF_BUILD": str(self._build)})
        self._tool("up", "--name", self.NAME, "--true-nodes", str(nodes))
        alert = read_yaml(CHART / "values.yaml")["alert"]["image"]
        alertmanager = f"{alert['repository']}:{alert['tag']}"
        china = read_yaml(CHART / "values-cn.yaml")
        version = read_yaml(CHART / "Chart.yaml")["appVersion"]
        program = self._build / "examples/out_of_memory"
        libraries = {**images.program_files(str(self._build / "lib/client/libcuda.so.1")), **images.program_files(str(program))}
        application = {path: file for path, file in libraries.items() if not file.startswith(str(self._build))}
        with tempfile.TemporaryDirectory() as made:
            own = {f"{alert['registry']}/{alertmanager}": ({"bin/alertmanager": built("alertmanager")}, ()),
                   self.APPLICATION: ({"bin/out_of_memory": program, **application, **images.program_files("/bin/busybox")}, [("bin/sh", "busybox")])}
            archives = [self._build / f"images/{name}.tar" for name in names]
            for name, (files, links) in own.items():
                archives.append(pathlib.Path(made) / f"{len(archives)}.tar")
                with open(archives[-1], "wb") as stream:
                    images.write_image(stream, name, files, links)
            for archive in archives:
                self._tool("load", "--name", self.NAME, str(archive))
        script = f"ctr image tag {alert['registry']}/{alertmanager} {china['alert']['image']['registry']}/{alertmanager}\n"
        for name in names:
            others = [f"{host}/tensorfusion/tensor-fusion-{name}:{tag}" for host in ("docker.io", china["imageRegistry"]) for tag in self._tags]
            script += f"ctr image tag docker.io/tensorfusion/tensor-fusion-{name}:{version} {' '.join(others)}\n"
        for i in range(nodes):
            self._tool("exec", "--name", self.NAME, "--node", f"node-{i}", "--", "sh", "-ec", script)
        self.kubectl("label", "node", "--all", "nvidia.com/gpu.present=true")

    @staticmethod
    def _tool(*arguments):
        subprocess.run([sys.executable, rig.TOOL, *arguments], check=True, stdout=subprocess.DEVNULL)

    def close(self):
        self._tool("down", "--name", self.NAME)
        shutil.rmtree(self._folder / "clusters", ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def kubectl(self, *arguments, check=True, **options):
        options = {"capture_output": True, "text": True, "timeout": 120, **options}
        done = subprocess.run([self._cluster.folder / "bin/kubectl", *arguments], check=False,
                              env={**os.environ, "KUBECONFIG": self.kubeconfig}, **options)
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def check_pod(self, _, megabytes, secret):
        """A program in a container that knows nothing of us: its libraries come from the image of the client, and its vGPU is that of a
        worker beside it, with the licence in SECRET. (The pool's workers let only those in who have a key.)"""
        volume = [{"name": "libraries", "mountPath": "/tensor-fusion"}]
        licence = [{"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": name}}} for name in ("TF_LICENSE", "TF_LICENSE_SIGN")]
        # The worker may be slower than the program.
        wait = "for i in 1 2 3 4 5 6 7 8 9 10; do out_of_memory $0 && exit 0; sleep 1; done; exit 1"
        return program_pod("check", [
            {"name": "main", "image": self.APPLICATION, "command": ["/bin/sh", "-c", wait.replace("sleep", "busybox sleep"), str(megabytes)],
             "volumeMounts": volume, "env": variables(
                 LD_LIBRARY_PATH="/tensor-fusion/client:/tensor-fusion/cudart",
                 TENSOR_FUSION_OPERATOR_CONNECTION_INFO="native+127.0.0.1+8000+0")}
        ], volumes=[{"name": "libraries", "emptyDir": {}}], initContainers=[
            {"name": "libraries", "image": "docker.io/tensorfusion/tensor-fusion-client:second", "volumeMounts": volume,
             "command": ["cp", "-r", "/opt/tensor-fusion/lib/.", "/tensor-fusion"]},
            {"name": "worker", "image": "docker.io/tensorfusion/tensor-fusion-worker:second", "restartPolicy": "Always",
             "command": ["tensor-fusion-worker", "-n", "native", "--address", "127.0.0.1", "-p", "8000"],
             "env": licence + self.driver + variables(TF_GPU_MEMORY_LIMIT=str(megabytes))}])
