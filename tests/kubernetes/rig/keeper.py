"""The two processes that hold a cluster.

The keeper stays outside the namespaces. It holds the lock of the cluster's folder, forwards the API server's port into the
network namespace, and ends the init when it is told to end (SIGTERM) or dies. The init starts the parts, each when those
before it are ready, and starts again what ends. With true nodes it is process 1 of the namespaces, so that its end is the
end of everything; without, the kernel kills the parts, for it is their parent.

In the cluster's folder keeper.json says who they are, {"keeper": pid, "init": pid}, and status.json how far they are,
{part: {"pid", "ready", "starts"}}; the parts' ids are those that the init sees.
"""
import asyncio
import copy
import ipaddress
import json
import os
import resource
import signal
import subprocess
import threading
import time
import traceback

from . import linux, parts

RESTART_DELAY_S = 1
PASSES_PER_S = 20


def write_json(path, value):
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value))
    part.rename(path)


def keep(cluster, listener):
    """Holds the cluster until SIGTERM or until its init ends. LISTENER: socket of the API server's port outside, or None."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})
    linux.adopt_orphans()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if cluster.nodes:
        for name in (cluster.cgroup, *map(cluster.node_cgroup, cluster.nodes)):
            linux.make_cgroup(name)
        linux.unshare(linux.CLONE_NEWPID)
    isolated, tell_isolated = os.pipe()
    init = os.fork()
    if init == 0:
        try:
            linux.die_with_parent()
            if listener:
                listener.close()
            machines = isolate(cluster)
            os.write(tell_isolated, b"1")
            os.close(tell_isolated)
            Init(cluster, machines).run()
        except BaseException:  # for the log; nothing of the caller's may run in this process
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(tell_isolated)
    write_json(cluster.folder / "keeper.json", {"keeper": os.getpid(), "init": init})
    if os.read(isolated, 1) and cluster.nodes:
        # A process whose children belong to another namespace may not start threads.
        with open("/proc/self/ns/pid", "rb") as own:
            linux.setns(own.fileno(), linux.CLONE_NEWPID)
        with open(f"/proc/{init}/ns/net", "rb") as inside:
            namespace = os.dup(inside.fileno())
        threading.Thread(target=forward, args=(listener, namespace, cluster.api_port), name="forward", daemon=True).start()
    while signal.sigwait({signal.SIGTERM, signal.SIGCHLD}) == signal.SIGCHLD:
        if os.waitid(os.P_PID, init, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
    os.kill(init, signal.SIGKILL)
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def forward(listener, namespace, port):
    """Passes connections on to 127.0.0.1:PORT in the network namespace, by a thread that lives there."""
    linux.setns(namespace, linux.CLONE_NEWNET)
    os.close(namespace)

    async def pump(reader, writer):
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
            writer.write_eof()
        except OSError:
            writer.close()

    async def connected(reader, writer):
        try:
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))
        for end in (writer, inner_writer):
            end.close()

    async def serve():
        server = await asyncio.start_server(connected, sock=listener)
        await server.serve_forever()

    asyncio.run(serve())


class Machine:
    """The mount and the network namespace that a process was in when this was made."""

    def __init__(self):
        self._namespaces = [(os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), kind)
                            for name, kind in (("net", linux.CLONE_NEWNET), ("mnt", linux.CLONE_NEWNS))]

    @property
    def network(self):
        """A path of the network namespace, for the program `ip`."""
        return f"/proc/{os.getpid()}/fd/{self._namespaces[0][0]}"

    def enter(self):
        for descriptor, kind in self._namespaces:
            linux.setns(descriptor, kind)


def isolate(cluster):
    """A machine for each true node of the cluster, all connected; the calling process stays in the first. Nothing but its
    descriptors and the processes in there hold them."""
    outside = Machine()
    machines = []
    for node in cluster.nodes:
        outside.enter()
        linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWNET)
        mount_node(cluster, node)
        machines.append(Machine())
        connect_node(cluster, node, machines[0])
    if machines:
        machines[0].enter()
    for node in cluster.nodes[1:]:
        ip("link", "set", node.name, "master", "node", "up")
    return machines


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, env={"PATH": parts.SYSTEM_PATH})


def mount_node(cluster, node):
    """What the node's programs write to the usual places goes into the cluster's folder, so that several clusters, the nodes of
    one, and the machine's own containers, do not meet."""
    data = cluster.node_data(node)
    mount = linux.mount
    mount(None, "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    mount(None, "/", flags=linux.MS_REC | linux.MS_SHARED)  # among the node's own; pods may ask for propagation
    mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    mount("tmpfs", "/run", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=755")
    for name in ("var-lib", "var-lib.work"):
        (data / name).mkdir(exist_ok=True)
    mount("overlay", "/var/lib", "overlay", options=f"lowerdir=/var/lib,upperdir={data}/var-lib,workdir={data}/var-lib.work")
    os.makedirs("/var/lib/kubelet", exist_ok=True)
    mount(data / "kubelet", "/var/lib/kubelet", flags=linux.MS_BIND)
    mount(data / "log", "/var/log", flags=linux.MS_BIND)
    for path in parts.KERNEL_SETTINGS:
        mount(cluster.folder / "data/kernel" / path.replace("/", "."), f"/proc/sys/{path}", flags=linux.MS_BIND)


def connect_node(cluster, node, first):
    """The node's interface: on the first one a bridge, which the others' are connected to."""
    ip("link", "set", "lo", "up")
    if node.index == 0:
        ip("link", "add", "node", "type", "bridge")
    else:
        ip("link", "add", "node", "type", "veth", "peer", "name", node.name, "netns", first.network)
    ip("address", "add", f"{node.address}/24", "dev", "node")
    ip("link", "set", "node", "up")
    ip("route", "add", "default", "dev", "node")
    for other in cluster.nodes:
        if other != node:
            ip("route", "add", str(ipaddress.ip_interface(other.pods).network), "via", other.address)
    for setting in ("net/ipv4/ip_forward", "net/bridge/bridge-nf-call-iptables"):
        if os.path.exists(f"/proc/sys/{setting}"):
            with open(f"/proc/sys/{setting}", "w", encoding="ascii") as file:
                file.write("1")


class Init:
    def __init__(self, cluster, machines):
        self._cluster = cluster
        self._machines = machines
        self._parts = {part.name: part for part in parts.parts(cluster)}
        self._states = {name: {"pid": 0, "ready": False, "starts": 0} for name in self._parts}
        self._not_before = dict.fromkeys(self._parts, 0.0)

    def run(self):
        waited = {signal.SIGCHLD}
        signal.pthread_sigmask(signal.SIG_BLOCK, waited)
        written = None
        while True:
            self._reap()
            for part in self._parts.values():
                self._advance(part)
            if self._states != written:
                write_json(self._cluster.folder / "status.json", self._states)
                written = copy.deepcopy(self._states)
            everything_ready = all(state["ready"] for state in self._states.values())
            signal.sigtimedwait(waited, 60 if everything_ready else 1 / PASSES_PER_S)

    def _reap(self):
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for name, state in self._states.items():
                if state["pid"] == pid:
                    state.update(pid=0, ready=False)
                    self._not_before[name] = time.monotonic() + RESTART_DELAY_S

    def _advance(self, part):
        state = self._states[part.name]
        if state["pid"] == 0:
            if all(self._states[name]["ready"] for name in part.after) and time.monotonic() >= self._not_before[part.name]:
                state["pid"] = self._start(part)
                state["starts"] += 1
        elif not state["ready"]:
            state["ready"] = part.ready(state["pid"])

    def _start(self, part):
        # Where it shall be, and not after the fork: what asks for it by its process id shall not find another node's.
        if part.node:
            self._machines[part.node].enter()
        pid = os.fork()
        if pid:
            if part.node:
                self._machines[0].enter()
            return pid
        try:
            linux.die_with_parent()
            os.setsid()
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            log = os.open(self._cluster.folder / f"logs/{part.name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.closerange(3, 256)
            os.chdir(self._cluster.folder)
            name, value = self._cluster.mark.split("=", 1)
            os.execvpe(part.command[0], part.command, {"PATH": parts.SYSTEM_PATH, "HOME": str(self._cluster.folder), name: value})
        except OSError as error:
            os.write(2, f"{part.command[0]}: {error}\n".encode())
        finally:
            os._exit(127)
