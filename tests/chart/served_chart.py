"""The chart as people get it: packed, in a repository that is served over HTTP on loopback, with its values files beside it.

    with ServedChart() as chart:
        helm("upgrade", "--install", "--repo", chart.url, "-f", chart.url + "/values-cn.yaml", "tensor-fusion-sys", "tensor-fusion")

By hand, until it is ended: tests/chart/served_chart.py
"""
import functools
import http.server
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "charts/tensor-fusion"


def built(name):
    """A released program, at the version that the tests use; built on first use."""
    return subprocess.run([ROOT / "tools/kubernetes_tools", name], capture_output=True, text=True, check=True).stdout.strip()


def helm_program():
    return built("helm")


def copy_of_chart(folder, version=None, app_version=None):
    """A copy to change, in FOLDER; with another version when one is given."""
    copy = pathlib.Path(folder) / "tensor-fusion"
    shutil.copytree(CHART, copy)
    lines = (copy / "Chart.yaml").read_text(encoding="utf-8").splitlines()
    for key, value in (("version", version), ("appVersion", app_version)):
        if value:
            lines = [f'{key}: "{value}"' if line.startswith(key + ":") else line for line in lines]
    (copy / "Chart.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return copy


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass


class ServedChart:
    """`url` is the repository's. Ended and removed by close()."""

    def __init__(self, helm=None):
        self.helm = helm or helm_program()
        self._temporary = tempfile.TemporaryDirectory(prefix="tf-chart-repository-")
        self.folder = pathlib.Path(self._temporary.name)
        self._server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(_Handler, directory=self.folder))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="chart repository", daemon=True)
        self._thread.start()
        for values in CHART.glob("values-*.yaml"):
            shutil.copy(values, self.folder)
        self.add()

    def add(self, version=None, app_version=None, chart=None):
        """Packs the chart (or a copy of it, CHART) into the repository, as VERSION when one is given."""
        with tempfile.TemporaryDirectory() as folder:
            chart = chart or copy_of_chart(folder, version, app_version)
            subprocess.run([self.helm, "package", chart, "--destination", self.folder], capture_output=True, check=True)
        subprocess.run([self.helm, "repo", "index", self.folder, "--url", self.url], capture_output=True, check=True)

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._temporary.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


if __name__ == "__main__":
    with ServedChart() as served:
        print(f"helm upgrade --install --create-namespace --namespace tensor-fusion-sys --repo {served.url} tensor-fusion-sys tensor-fusion")
        print("Ends at Ctrl-C.", flush=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            sys.exit(0)
