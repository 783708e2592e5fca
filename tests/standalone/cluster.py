"""A cluster of `tfctl up` for tests: a data folder of its own, and what is left of it in the system."""
import json
import os
import subprocess
import tempfile
import time


class Cluster:
    """Programs are those of the folder `programs` (build/bin). Ended and removed by close()."""

    def __init__(self, programs, folder=None):
        self.programs = programs
        self._temporary = None if folder else tempfile.TemporaryDirectory(prefix="tf-standalone-")
        self.folder = folder or os.path.join(self._temporary.name, "data")
        self.kubeconfig = os.path.join(self.folder, "kubeconfig")

    def close(self):
        self.tfctl("down")
        if self._temporary:
            self._temporary.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def program(self, name):
        return os.path.join(self.programs, name)

    def tfctl(self, command, *arguments, **options):
        options = {"capture_output": True, "text": True, "timeout": 300, **options}
        return subprocess.run([self.program("tfctl"), command, "--data-dir", self.folder, *arguments], check=False, **options)

    def up(self, *arguments):
        done = self.tfctl("up", *arguments)
        if done.returncode != 0:
            raise AssertionError(f"tfctl up: {done.returncode}\n{done.stdout}{done.stderr}{self.logs()}")
        return done

    def down(self):
        done = self.tfctl("down")
        if done.returncode != 0:
            raise AssertionError(f"tfctl down: {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def status(self):
        done = self.tfctl("status", "--output", "json")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def parts(self):
        return {part["name"]: part for part in self.status()["parts"]}

    def env(self):
        return {**os.environ, "KUBECONFIG": self.kubeconfig, "PATH": self.programs + os.pathsep + os.environ["PATH"]}

    def kubectl(self, *arguments, check=True, **options):
        options = {"capture_output": True, "text": True, "timeout": 120, **options}
        done = subprocess.run([self.program("kubectl"), *arguments], env=self.env(), check=False, **options)
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def await_kubectl(self, *arguments, limit=60, **options):
        """Until the command succeeds: parts that were killed come back after a while."""
        return await_value(lambda: (done := self.kubectl(*arguments, check=False, **options)).returncode == 0 and done,
                           limit, lambda: f"kubectl {' '.join(arguments)} does not succeed\n{self.logs()}")

    def leftovers(self):
        """Processes of the system that have anything to do with the folder, as {pid: how}."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            if int(pid) == os.getpid():
                continue
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().replace(b"\0", b" ").decode(errors="replace")
                links = [os.readlink(f"/proc/{pid}/cwd")]
                links += [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
            except OSError:
                continue  # ended meanwhile, or not ours
            if self.folder in words or any(link.startswith(self.folder) for link in links):
                found[int(pid)] = words
        return found

    def logs(self):
        text = ""
        folder = os.path.join(self.folder, "logs")
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                text += f"--- {name}\n" + "".join(file.readlines()[-15:])
        return text


def await_value(ask, limit, failure, every=0.1):
    """What `ask` gives once it gives something true; asks again and again until `limit` seconds are over."""
    end = time.monotonic() + limit
    while True:
        value = ask()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"after {limit} s: {failure() if callable(failure) else failure}")
        time.sleep(every)
