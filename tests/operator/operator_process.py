"""The operator as a process beside a cluster, for tests."""
import os
import signal
import socket
import subprocess
import urllib.request

from cluster import await_value

NAMESPACE = "tensor-fusion-sys"


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def issue_license(programs):
    """A licence as a worker's variables: {"TF_LICENSE": …, "TF_LICENSE_SIGN": …}."""
    printed = subprocess.run([os.path.join(programs, "tfctl"), "license", "issue", "--customer", "test"], capture_output=True,
                             text=True, check=True).stdout
    return dict(line.split("=", 1) for line in printed.replace("'", "").splitlines())


class Operator:
    """Ended by close(). `log` keeps what all its processes have said. `cluster` has program(name) and kubeconfig."""

    def __init__(self, cluster, folder, *arguments):
        self.log = os.path.join(folder, "operator.log")
        self.process = None
        self.health = f"127.0.0.1:{free_port()}"
        self.command = [cluster.program("tensor-fusion-operator"), "--kubeconfig", cluster.kubeconfig, "--health-bind-address",
                        self.health, *arguments]

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command, env={**os.environ, "TF_LOG_LEVEL": "info", "OPERATOR_NAMESPACE": NAMESPACE}, stdout=log, stderr=log)
        return self

    def kill(self):
        """As the kernel does when memory is short."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=30)
        if code != 0:
            raise AssertionError(f"the operator ended with {code}\n{self.said()}")

    def close(self):
        if self.process is not None and self.process.poll() is None:
            self.kill()

    def rss(self):
        """MiB of memory that it has."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024

    def cpu(self):
        """Seconds of CPU that it has used."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def said(self, lines=40):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-lines:])

    def metrics(self):
        """{'name{labels}': value} of /metrics."""
        with urllib.request.urlopen(f"http://{self.health}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if line and not line.startswith("#")}

    def requests(self):
        """How many requests it has made of the API server; 0 while it is starting."""
        try:
            return int(sum(value for name, value in self.metrics().items() if name.startswith("rest_client_requests_total{")))
        except OSError:
            return 0

    def reconciles(self):
        """How often its controllers have looked at an object, by controller."""
        total = {}
        for name, value in self.metrics().items():
            if name.startswith("controller_runtime_reconcile_total{"):
                controller = name.split('controller="')[1].split('"')[0]
                total[controller] = total.get(controller, 0) + int(value)
        return total


def install(cluster, source):
    """What the chart brings that the operator needs: the kinds, and its namespace. `cluster`: of `tfctl up`."""
    cluster.kubectl("apply", "--server-side", "-f", os.path.join(source, "charts/tensor-fusion/crds"))
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    cluster.kubectl("create", "namespace", NAMESPACE)


def end(cluster, operator, temporary):
    """All three; the cluster leaves nothing behind."""
    try:
        operator.close()
        cluster.down()
        left = cluster.leftovers()
        assert not left, f"down left {left}"
    finally:
        cluster.close()
        temporary.cleanup()


__all__ = ["NAMESPACE", "Operator", "await_value", "end", "free_port", "install", "issue_license"]
