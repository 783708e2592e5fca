"""One cluster as its user sees it."""
import concurrent.futures
import contextlib
import fcntl
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

from . import images, linux, parts
from .api import Api, ApiError, condition, wait_for
from .certificates import Authority

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools/cluster"
NODE_PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr", "runc", "iptables", "ip")
FIRST_PORT, LAST_PORT = 21000, 29999  # below the ports that the kernel gives to outgoing connections

CREATING_THREADS = 4


class Failure(Exception):
    """For the user: one line that says what to do."""


def home():
    """The folder of all clusters of this user."""
    chosen = os.environ.get("TF_CLUSTERS")
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return pathlib.Path(chosen or f"{state}/tensor-fusion/clusters").absolute()


def names():
    return sorted(path.parent.name for path in home().glob("*/cluster.json"))


class Cluster:
    def __init__(self, name):
        if not re.fullmatch("[a-z0-9][a-z0-9-]{0,19}", name):
            raise Failure(f"'{name}' cannot be a cluster's name: at most 20 of a-z, 0-9 and -")
        self.name = name
        self.folder = home() / name
        if not re.fullmatch("[A-Za-z0-9/._-]+", str(self.folder)) or re.match("/(run|var/run|var/lib|var/log|proc|sys)/", str(self.folder)):
            raise Failure(f"clusters cannot live in {self.folder}: choose another folder by TF_CLUSTERS, of letters, digits and "
                          "/._- and not below /run, /var/lib, /var/log")
        if len(str(self.folder)) > 200:
            raise Failure(f"{self.folder} is too long a path")
        self._started = time.monotonic()

    # -- up ------------------------------------------------------------------------------------------------------------

    def up(self, true_nodes, crowd):
        """Starts the cluster, or goes on with one that an earlier call started, until all of it is ready."""
        self._check(true_nodes)
        programs = self._programs(true_nodes, crowd)
        home().mkdir(parents=True, exist_ok=True)
        cluster = wait_for("the keeper", lambda: self._start_or_find(true_nodes, crowd, programs), 60)
        if (cluster.true_nodes, cluster.crowd) != (true_nodes, crowd):
            raise Failure(f"'{self.name}' runs already, as {describe(cluster)}; tools/cluster down first, or use another --name")
        api = Api(cluster.api_port, cluster.certificates)
        if true_nodes:
            self._load_images(cluster)
        self._wait_for_part("kube-apiserver", 180)
        self._step("API server ready")
        wait_for("the API server", lambda: api.get("Namespace", name="kube-system"), 60)
        if true_nodes:
            api.apply(*parts.dns_objects())
            for node in cluster.nodes:
                self._wait(cluster, f"{node.name} Ready",
                           lambda name=node.name: condition(api.get("Node", name=name), "Ready") == "True", 180)
            # The kubelet, not the API server, is what needs the right to read pods' logs; that is its certificate's.
            self._wait(cluster, "DNS ready", lambda: condition(api.get("Deployment", "kube-system", "coredns"), "Available") == "True", 180)
        if crowd:
            self._add_crowd(cluster, api)
        return cluster

    def _check(self, true_nodes):
        if true_nodes and os.geteuid() != 0:
            raise Failure("a true node needs root; without root: tools/cluster up --profile crowd")
        if true_nodes and subprocess.run([ROOT / "tools/setup", "--cluster"], check=False).returncode != 0:
            raise Failure("a true node needs the packages named above")
        missing = [name for name in ("openssl", *(NODE_PROGRAMS if true_nodes else ())) if not shutil.which(name, path=parts.SYSTEM_PATH)]
        if true_nodes and not any(os.path.exists(f"{folder}/bridge") for folder in parts.CNI_FOLDERS):
            missing.append("the CNI plugins")
        if missing:
            raise Failure(f"not found: {', '.join(missing)}; install them by tools/setup --cluster")

    def _programs(self, true_nodes, crowd):
        found = {"controlplane": self._build("controlplane"), "kwok": "", "coredns": ""}
        if crowd:
            found["kwok"] = self._build("kubernetes_tools", "kwok")
        if true_nodes:
            found["coredns"] = self._build("kubernetes_tools", "coredns")
        self._step("programs there")
        return found

    @staticmethod
    def _build(*command):
        result = subprocess.run([ROOT / "tools" / command[0], *command[1:]], stdout=subprocess.PIPE, text=True, check=False)
        if result.returncode != 0:
            raise Failure(f"tools/{' '.join(command)} failed")
        return result.stdout.split()[-1]

    def _start_or_find(self, true_nodes, crowd, programs):
        """The cluster that runs, or None while that is not clear."""
        with self._lock() as lock:
            if lock:
                self._clean()
                self._start(lock, true_nodes, crowd, programs)
        return parts.Description.load(self.folder) if self._people() else None

    def _start(self, lock, true_nodes, crowd, programs):
        self.folder.mkdir(mode=0o700)
        with contextlib.ExitStack() as stack:
            if true_nodes:
                # The keeper listens outside and forwards; inside nothing else uses the ports.
                listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
                api_port = listener.getsockname()[1]
                ports = {"etcd": 2379, "peer": 2380, "controller_manager": 10257, "scheduler": 10259}
            else:
                listener = None
                stack.enter_context(self._lock_ports())
                api_port, *more = free_ports(5)
                ports = dict(zip(("etcd", "peer", "controller_manager", "scheduler"), more))
            cluster = parts.Description(self.folder, self.name, true_nodes, crowd, api_port=api_port, ports=ports, **programs)
            parts.write_configuration(cluster, Authority(cluster.certificates))
            cluster.save()
            inherited = [lock, *([listener.fileno()] if listener else [])]
            with open(self.folder / "logs/keeper.log", "wb") as log:
                # Not waited for: it outlives this process.
                subprocess.Popen([sys.executable, TOOL, "keep", self.name, *(str(listener.fileno()) for _ in inherited[1:])],
                                 stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, pass_fds=inherited,
                                 cwd="/", env=self._environment(cluster))

    def keep(self, listener):
        """What the keeper process runs."""
        from . import keeper  # pylint: disable=import-outside-toplevel
        keeper.keep(parts.Description.load(self.folder), socket.socket(fileno=listener) if listener is not None else None)

    def _load_images(self, cluster):
        @contextlib.contextmanager
        def stream_of(node, name):
            with self._importer(node, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as importer:
                yield importer.stdin
                output, _ = importer.communicate()
                if importer.returncode != 0:
                    raise Failure(f"the image {name} could not be put into {node.name}: {output.decode().strip()[-500:]}")
        for node in cluster.nodes:
            self._wait_for_part(f"containerd{node.suffix}", 60)
            # CoreDNS runs on the first node.
            images.write_node_images(functools.partial(stream_of, node), cluster.coredns if node.index == 0 else None)
        self._step("images in the nodes")

    def _importer(self, node, **options):
        """A process that puts the archive on its standard input into a true node."""
        return subprocess.Popen([sys.executable, TOOL, "exec", "--name", self.name, "--node", node.name, "--", *images.IMPORT], **options)

    def _add_crowd(self, cluster, api):
        present = {node["metadata"]["name"] for node in api.items("Node")}
        missing = [node for node in (parts.simulated_node(index, tainted=bool(cluster.nodes)) for index in range(cluster.crowd))
                   if node["metadata"]["name"] not in present]

        def create(nodes):
            own = Api(cluster.api_port, cluster.certificates)  # a client is for one thread
            for node in nodes:
                try:
                    own.create(node)
                except ApiError as error:
                    if error.code != 409:  # another call of `up` was faster
                        raise
        with concurrent.futures.ThreadPoolExecutor(CREATING_THREADS) as pool:
            list(pool.map(create, (missing[first::CREATING_THREADS] for first in range(CREATING_THREADS))))
        self._step(f"{cluster.crowd} simulated nodes created")
        ready = lambda: sum(condition(node, "Ready") == "True" for node in api.items("Node", query="?labelSelector=type%3Dkwok"))
        self._wait(cluster, f"{cluster.crowd} simulated nodes Ready", lambda: ready() >= cluster.crowd, 60 + cluster.crowd // 10, 0.5)

    def _wait_for_part(self, name, timeout):
        def ready():
            if not self._running():
                raise Failure(f"the cluster ended while it started; its last words:\n{self._tail('keeper')}")
            return self._status().get(name, {}).get("ready")
        try:
            wait_for(name, ready, timeout, 0.05)
        except TimeoutError as error:
            raise Failure(f"{error}; its log ends:\n{self._tail(name)}") from error

    def _wait(self, cluster, what, predicate, timeout, interval=0.1):
        try:
            wait_for(what, predicate, timeout, interval)
        except TimeoutError as error:
            raise Failure(f"{error}; logs are in {cluster.folder}/logs") from error
        self._step(what)

    def _step(self, what):
        print(f"  {what:<40} {time.monotonic() - self._started:6.1f} s", flush=True)

    # -- down ----------------------------------------------------------------------------------------------------------

    def down(self):
        """Ends the cluster and removes all of it; False where there was nothing."""
        if not self.folder.exists():
            return False
        people = self._people()
        if self._running() and people:
            os.kill(people["keeper"], signal.SIGTERM)
        deadline = time.monotonic() + 20
        while True:
            with self._lock() as lock:
                if lock or time.monotonic() > deadline:
                    self._clean()
                    if lock:
                        return True
            if time.monotonic() > deadline + 20:
                raise Failure(f"'{self.name}' does not end; processes {linux.marked_processes(self._mark())} are left")
            time.sleep(0.02)

    def _clean(self):
        """Removes what a cluster left, however it ended."""
        if not self.folder.exists():
            return
        linux.kill_marked(self._mark())
        if cluster := parts.Description.load(self.folder):
            linux.remove_cgroup(cluster.cgroup)
        shutil.rmtree(self.folder)

    # -- in use --------------------------------------------------------------------------------------------------------

    def description(self):
        cluster = parts.Description.load(self.folder)
        if not cluster or not self._running():
            raise Failure(f"no cluster '{self.name}' is running; start one by tools/cluster up")
        return cluster

    def execute(self, command, node=parts.NODE):
        """Runs COMMAND where the cluster is, on the true node of that name if there are any; returns its exit status."""
        cluster = self.description()
        environment = self._environment(cluster)
        if command[0] == "helm" and not (self.folder / "bin/helm").exists():
            (self.folder / "bin/helm").symlink_to(self._build("kubernetes_tools", "helm"))
        os.environ["PATH"] = environment["PATH"]  # where the command is looked up
        if not cluster.nodes:
            return linux.run(command, environment)
        where = next((one for one in cluster.nodes if one.name == node), None)
        if not where:
            raise Failure(f"'{self.name}' has no true node '{node}'; there are: {' '.join(one.name for one in cluster.nodes)}")
        inside = self.part_process(f"containerd{where.suffix}") if where.index else self._people()["init"]
        if not inside:
            raise Failure(f"containerd does not run on {node}; its log ends:\n{self._tail(f'containerd{where.suffix}')}")
        return linux.run_inside(inside, command, environment)

    def load(self, archive):
        """Puts the images of an archive (as `docker save` or `buildah push oci-archive:` write it) into the true nodes."""
        nodes = self.description().nodes
        if not nodes:
            raise Failure(f"'{self.name}' has no true node that could run an image")
        importers = []
        for node in nodes:
            with open(archive, "rb") as stream:
                importers.append(self._importer(node, stdin=stream))
        return max([importer.wait() for importer in importers])

    def status(self):
        """Lines for people."""
        cluster = self.description()
        api = Api(cluster.api_port, cluster.certificates)
        outside = {inside: pid for pid, inside in self._process_ids().items()}
        lines = [f"{self.name}: {describe(cluster)}"]
        for name, part in self._status().items():
            pid = outside.get(part["pid"], 0)
            state = f"pid {pid:<8} {linux.memory_mib(pid):5} MiB" if pid else "not running"
            lines.append(f"  {name:<24} {state}" + (f"  started {part['starts']} times" if part["starts"] > 1 else ""))
        try:
            nodes, pods = api.items("Node"), api.items("Pod")
            ready = sum(condition(node, "Ready") == "True" for node in nodes)
            running = sum(condition(pod, "Ready") == "True" for pod in pods)
            lines.append(f"  {ready} of {len(nodes)} nodes and {running} of {len(pods)} pods are Ready")
        except (OSError, ApiError) as error:
            lines.append(f"  the API server does not answer: {error}")
        return lines

    def process_ids(self):
        """The ids, outside, of the keeper, the init and everything that they started but the containers' own processes."""
        return linux.marked_processes(self._mark())

    def keeper_process(self):
        return self._people()["keeper"]

    def init_process(self):
        return self._people()["init"]

    def part_process(self, name):
        """The id, outside, of a part's process; 0 when it does not run."""
        outside = {inside: pid for pid, inside in self._process_ids().items()}
        return outside.get(self._status()[name]["pid"], 0)

    # -- inner ---------------------------------------------------------------------------------------------------------

    def _process_ids(self):
        """Id outside -> id as the init sees it, of the cluster's processes."""
        init = self._people()["init"]
        found = {}
        try:
            space = os.readlink(f"/proc/{init}/ns/pid")
        except OSError:
            return found
        for pid in linux.marked_processes(self._mark()):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/ns/pid") == space:
                    status = pathlib.Path(f"/proc/{pid}/status").read_text()
                    found[pid] = int(re.search(r"^NSpid:.*\s(\d+)$", status, re.MULTILINE)[1])
        return found

    def _environment(self, cluster):
        name, value = self._mark().split("=", 1)
        mine = {"KUBECONFIG": str(cluster.kubeconfig), "CONTAINERD_NAMESPACE": "k8s.io", name: value}
        return os.environ | mine | {"PATH": f"{self.folder}/bin:{os.environ['PATH']}:/usr/sbin:/sbin"}

    def _mark(self):
        return f"TF_CLUSTER_FOLDER={self.folder}"

    def _people(self):
        people = self._read("keeper.json")
        return people if people and linux.has_mark(people["keeper"], self._mark()) else {}

    def _status(self):
        return self._read("status.json")

    def _read(self, name):
        try:
            return json.loads((self.folder / name).read_text())
        except (OSError, ValueError):
            return {}

    def _tail(self, part):
        try:
            return "\n".join((self.folder / f"logs/{part}.log").read_text(errors="replace").splitlines()[-8:])
        except OSError:
            return "(no log)"

    def _running(self):
        with self._lock() as lock:
            return not lock

    @contextlib.contextmanager
    def _lock(self):
        """Gives the descriptor of the lock when it was free, else None. The keeper and the init hold it while they live."""
        home().mkdir(parents=True, exist_ok=True)
        with open(home() / f"{self.name}.lock", "wb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
                return
            yield file.fileno()

    @staticmethod
    @contextlib.contextmanager
    def _lock_ports():
        """One start at a time chooses ports, and until its cluster.json is there nobody else does."""
        with open(home() / "ports.lock", "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def free_ports(count):
    """Loopback ports that nobody listens on and no other cluster here has chosen."""
    taken = set()
    for name in names():
        if other := parts.Description.load(home() / name):
            taken |= {other.api_port, *other.ports.values()}
    found = []
    for port in range(FIRST_PORT, LAST_PORT):
        if port not in taken and len(found) < count:
            with socket.socket() as probe, contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                found.append(port)
    if len(found) < count:
        raise Failure(f"no {count} free ports between {FIRST_PORT} and {LAST_PORT} on 127.0.0.1")
    return found


def describe(cluster):
    true = ["a true node" if cluster.true_nodes == 1 else f"{cluster.true_nodes} true nodes"] if cluster.nodes else []
    kinds = true + ([f"{cluster.crowd} simulated nodes"] if cluster.crowd else [])
    return " and ".join(kinds)
