"""The parts of a cluster: what runs, with which configuration, after what. Configuration files are JSON, which all of them
read as YAML."""
import dataclasses
import hashlib
import ipaddress
import json
import os
import pathlib
import typing

from . import images
from .api import Api

NODE_ADDRESS = "10.99.0.1"  # of the first true node, where the control plane is
POD_NETWORK = "10.244.0.0/16"
SIMULATED_POD_NETWORK = "10.245.0.1/16"
SERVICE_NETWORK = "10.96.0.0/16"
FIRST_SERVICE_ADDRESS = "10.96.0.1"
DNS_ADDRESS = "10.96.0.10"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
CNI_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What KWOK does with nodes and pods. The lease stage keeps nodes Ready beyond 40 s; chaos acts on what has its labels.
STAGES = ("node/fast", "node/heartbeat-with-lease", "node/chaos", "pod/fast", "pod/chaos")

# After this time without a sign of life a node is lost, in clusters with simulated ones (Kubernetes' default is 50 s).
CROWD_GRACE_S = 100

# The kubelet sets these for the whole machine. In a cluster it meets files of its own that say they are set already.
KERNEL_SETTINGS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/keys/root_maxbytes": 25000000,
}


MOST_TRUE_NODES = 16


@dataclasses.dataclass(frozen=True)
class TrueNode:
    """A kubelet with a containerd, in a mount and a network namespace of its own."""
    index: int

    @property
    def name(self):
        return f"node-{self.index}"

    @property
    def address(self):
        return f"10.99.0.{1 + self.index}"

    @property
    def pods(self):
        """Gateway and length of the network of its pods."""
        return f"10.244.{self.index}.1/24"

    @property
    def suffix(self):
        """Of its parts' and files' names: those of the first node have none."""
        return f"-{self.index}" if self.index else ""


NODE = TrueNode(0).name


def cgroup_prefix(home):
    """How the cgroups of the clusters in a folder begin: clusters in different places may have the same name."""
    return f"tensor-fusion-{hashlib.sha256(os.fsencode(home)).hexdigest()[:8]}-"


@dataclasses.dataclass
class Part:
    name: str
    command: list
    after: tuple = ()  # parts that must be ready first
    ready: typing.Callable[[int], bool] = lambda pid: True  # asked with its process id
    node: int = 0  # index of the true node that it runs on


@dataclasses.dataclass
class Description:
    """What `up` decided; kept as cluster.json in the cluster's folder."""
    folder: pathlib.Path
    name: str
    true_nodes: int  # 0: none, and no namespaces
    crowd: int  # simulated nodes; 0: no KWOK
    controlplane: str  # programs
    kwok: str
    coredns: str
    api_port: int
    ports: dict  # etcd, peer, controller_manager, scheduler

    @property
    def mark(self):
        """What all processes of the cluster carry in their environment."""
        return f"TF_CLUSTER_FOLDER={self.folder}"

    @property
    def cgroup(self):
        return cgroup_prefix(self.folder.parent) + self.name

    @property
    def nodes(self):
        return [TrueNode(index) for index in range(self.true_nodes)]

    def node_cgroup(self, node):
        return f"{self.cgroup}/{node.name}"

    def node_data(self, node):
        """What the node's programs write."""
        return self.folder / "data" / node.name

    @property
    def certificates(self):
        return self.folder / "certificates"

    @property
    def kubeconfig(self):
        return self.folder / "kubeconfig"

    def save(self):
        values = dataclasses.asdict(self) | {"folder": str(self.folder)}
        (self.folder / "cluster.json").write_text(json.dumps(values, indent=2))

    @staticmethod
    def load(folder):
        """None where there is none that can be read: a start that was killed may leave half a file."""
        try:
            values = json.loads((folder / "cluster.json").read_text())
            return Description(**(values | {"folder": folder}))
        except (OSError, ValueError, TypeError):
            return None


def write_configuration(cluster, authority):
    """Certificates, kubeconfig files and the parts' configuration, in the cluster's folder."""
    for folder in ("config", "logs", "bin", "data", "data/kernel"):
        (cluster.folder / folder).mkdir(exist_ok=True)
    for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"):
        (cluster.folder / "bin" / name).symlink_to(cluster.controlplane)

    local = ["IP:127.0.0.1", "DNS:localhost"]
    authority.issue("etcd", "etcd", names=local)
    authority.issue("kube-apiserver", "kube-apiserver", names=[
        *local, f"IP:{NODE_ADDRESS}", f"IP:{FIRST_SERVICE_ADDRESS}", "DNS:kubernetes", "DNS:kubernetes.default",
        "DNS:kubernetes.default.svc", "DNS:kubernetes.default.svc.cluster.local"])
    authority.issue("kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
    authority.issue("front-proxy", "front-proxy")
    authority.issue("admin", "admin", "system:masters")
    authority.issue("kube-controller-manager", "system:kube-controller-manager")
    authority.issue("kube-scheduler", "system:kube-scheduler")
    for user in ("admin", "kube-controller-manager", "kube-scheduler"):
        _write_kubeconfig(cluster, user)
    _write_kubeconfig(cluster, "admin", cluster.kubeconfig)
    _write(cluster, "kube-scheduler.json", {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(cluster.folder / "config/kube-scheduler.kubeconfig"), "qps": 1000, "burst": 1000},
    })
    if cluster.nodes:
        authority.issue("kube-proxy", "system:kube-proxy")
        _write_kubeconfig(cluster, "kube-proxy", address=NODE_ADDRESS)
        for path, value in KERNEL_SETTINGS.items():
            (cluster.folder / "data/kernel" / path.replace("/", ".")).write_text(f"{value}\n")
    for node in cluster.nodes:
        _write_node_configuration(cluster, node, authority, local)


def _write_node_configuration(cluster, node, authority, local):
    kubelet, data = f"kubelet{node.suffix}", cluster.node_data(node)
    for folder in ("", "log", "kubelet"):
        (data / folder).mkdir()
    authority.issue(kubelet, f"system:node:{node.name}", "system:nodes")
    authority.issue(f"{kubelet}-server", node.name, names=[*local, f"IP:{node.address}", f"DNS:{node.name}"])
    _write_kubeconfig(cluster, kubelet, address=NODE_ADDRESS)
    _write(cluster, f"{kubelet}.json", {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address,
        "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True},
                           "x509": {"clientCAFile": str(cluster.certificates / "ca.crt")}},
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(cluster.certificates / f"{kubelet}-server.crt"),
        "tlsPrivateKeyFile": str(cluster.certificates / f"{kubelet}-server.key"),
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "clusterDomain": "cluster.local",
        "clusterDNS": [DNS_ADDRESS],
        "resolvConf": "",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cluster.node_cgroup(node)}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "maxPods": 250,
        "serializeImagePulls": False,
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%",
                         "imagefs.available": "1%"},
    })
    (cluster.folder / f"config/cni{node.suffix}").mkdir()
    _write(cluster, f"cni{node.suffix}/10-bridge.conflist", {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {"type": "bridge", "bridge": "pods", "isGateway": True, "hairpinMode": True,
             "ipam": {"type": "host-local", "ranges": [[{"subnet": str(ipaddress.ip_interface(node.pods).network)}]],
                      "routes": [{"dst": "0.0.0.0/0"}]}},
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    })
    cni = next((folder for folder in CNI_FOLDERS if os.path.exists(f"{folder}/bridge")), CNI_FOLDERS[0])
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    (cluster.folder / f"config/containerd{node.suffix}.toml").write_text(f"""\
version = 2
root = "{data}/containerd"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[{cri}]
  sandbox_image = "{images.PAUSE}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [{cri}.cni]
    bin_dir = "{cni}"
    conf_dir = "{cluster.folder}/config/cni{node.suffix}"
  [{cri}.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
""")


def _write(cluster, name, content):
    (cluster.folder / "config" / name).write_text(json.dumps(content, indent=2))


def _write_kubeconfig(cluster, user, path=None, address="127.0.0.1"):
    path = path or cluster.folder / f"config/{user}.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(json.dumps({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster.name, "cluster": {"server": f"https://{address}:{cluster.api_port}",
                                                        "certificate-authority": str(cluster.certificates / "ca.crt")}}],
        "users": [{"name": user, "user": {"client-certificate": str(cluster.certificates / f"{user}.crt"),
                                          "client-key": str(cluster.certificates / f"{user}.key")}}],
        "contexts": [{"name": cluster.name, "context": {"cluster": cluster.name, "user": user}}],
        "current-context": cluster.name,
    }, indent=2))


def parts(cluster):
    """The parts in the order of their start."""
    certificates, config, data, ports = cluster.certificates, cluster.folder / "config", cluster.folder / "data", cluster.ports
    program = lambda name: str(cluster.folder / "bin" / name)
    etcd_client = f"https://127.0.0.1:{ports['etcd']}"
    etcd_peer = f"https://127.0.0.1:{ports['peer']}"
    etcd = Api(ports["etcd"], certificates, "etcd")
    api = Api(cluster.api_port, certificates)
    found = [
        Part("etcd", [
            program("etcd"), f"--data-dir={data}/etcd", "--unsafe-no-fsync", "--log-level=warn",
            f"--listen-client-urls={etcd_client}", f"--advertise-client-urls={etcd_client}",
            f"--listen-peer-urls={etcd_peer}", f"--initial-advertise-peer-urls={etcd_peer}",
            f"--initial-cluster=default={etcd_peer}",
            f"--cert-file={certificates}/etcd.crt", f"--key-file={certificates}/etcd.key",
            f"--trusted-ca-file={certificates}/ca.crt", "--client-cert-auth",
            f"--peer-cert-file={certificates}/etcd.crt", f"--peer-key-file={certificates}/etcd.key",
            f"--peer-trusted-ca-file={certificates}/ca.crt", "--peer-client-cert-auth",
        ], ready=lambda pid: etcd.answers("/health")),
        Part("kube-apiserver", [
            program("kube-apiserver"), f"--secure-port={cluster.api_port}", f"--advertise-address={NODE_ADDRESS}",
            # Endpoints may not be loopback addresses: without a true node nobody could use the API server's Service.
            *(["--bind-address=0.0.0.0"] if cluster.nodes else ["--bind-address=127.0.0.1", "--endpoint-reconciler-type=none"]),
            f"--etcd-servers={etcd_client}", f"--etcd-cafile={certificates}/ca.crt",
            f"--etcd-certfile={certificates}/etcd.crt", f"--etcd-keyfile={certificates}/etcd.key",
            f"--client-ca-file={certificates}/ca.crt", f"--tls-cert-file={certificates}/kube-apiserver.crt",
            f"--tls-private-key-file={certificates}/kube-apiserver.key",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={certificates}/service-account.pub",
            f"--service-account-signing-key-file={certificates}/service-account.key",
            f"--service-cluster-ip-range={SERVICE_NETWORK}", "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction", "--allow-privileged",
            f"--kubelet-client-certificate={certificates}/kubelet-client.crt",
            f"--kubelet-client-key={certificates}/kubelet-client.key", f"--kubelet-certificate-authority={certificates}/ca.crt",
            # Extension API servers; without them the other parts complain all the time.
            f"--requestheader-client-ca-file={certificates}/ca.crt", "--requestheader-allowed-names=front-proxy",
            "--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={certificates}/front-proxy.crt", f"--proxy-client-key-file={certificates}/front-proxy.key",
            # Else the API server looks up the node's name to fetch logs.
            "--kubelet-preferred-address-types=InternalIP",
            # The API server has no kube-proxy rules of its own; it reaches webhooks by the endpoints of their Services.
            "--enable-aggregator-routing",
        ], after=("etcd",), ready=lambda pid: api.answers("/readyz")),
        Part("kube-controller-manager", [
            program("kube-controller-manager"), f"--kubeconfig={config}/kube-controller-manager.kubeconfig",
            f"--authentication-kubeconfig={config}/kube-controller-manager.kubeconfig",
            f"--authorization-kubeconfig={config}/kube-controller-manager.kubeconfig",
            "--bind-address=127.0.0.1", f"--secure-port={ports['controller_manager']}",
            "--leader-elect=false", "--use-service-account-credentials",
            # With the defaults (20 and 30) a Deployment of 2,000 pods takes minutes.
            "--kube-api-qps=2000", "--kube-api-burst=4000",
            # A busy machine may be late with the signs of life of many nodes, and their pods would stay not Ready.
            *([f"--node-monitor-grace-period={CROWD_GRACE_S}s"] if cluster.crowd else []),
            f"--root-ca-file={certificates}/ca.crt", f"--service-account-private-key-file={certificates}/service-account.key",
            f"--cluster-signing-cert-file={certificates}/ca.crt", f"--cluster-signing-key-file={certificates}/ca.key",
        ], after=("kube-apiserver",)),
        Part("kube-scheduler", [
            program("kube-scheduler"), f"--config={config}/kube-scheduler.json",
            f"--authentication-kubeconfig={config}/kube-scheduler.kubeconfig",
            f"--authorization-kubeconfig={config}/kube-scheduler.kubeconfig",
            "--bind-address=127.0.0.1", f"--secure-port={ports['scheduler']}",
        ], after=("kube-apiserver",)),
    ]
    for node in cluster.nodes:
        containerd, kubelet = f"containerd{node.suffix}", f"kubelet{node.suffix}"
        found += [
            Part(containerd, ["containerd", f"--config={config}/{containerd}.toml"],
                 ready=lambda pid: os.path.exists(f"/proc/{pid}/root{CONTAINERD_SOCKET}"), node=node.index),
            Part(kubelet, [
                program("kubelet"), f"--config={config}/{kubelet}.json", f"--kubeconfig={config}/{kubelet}.kubeconfig",
                f"--hostname-override={node.name}", f"--node-ip={node.address}",
            ], after=(containerd, "kube-apiserver"), node=node.index),
            Part(f"kube-proxy{node.suffix}", [
                program("kube-proxy"), f"--kubeconfig={config}/kube-proxy.kubeconfig", f"--hostname-override={node.name}",
                "--proxy-mode=iptables", f"--cluster-cidr={POD_NETWORK}", "--conntrack-max-per-core=0", "--oom-score-adj=0",
            ], after=("kube-apiserver",), node=node.index),
        ]
    if cluster.crowd:
        _write(cluster, "kwok.json", {
            "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
            "kind": "KwokConfiguration",
            # With the defaults (4) a busy API server's answers come too slowly for the leases of 1,000 nodes.
            "options": {"nodeLeaseParallelism": 32, "nodePlayStageParallelism": 16, "podPlayStageParallelism": 16},
        })
        stages = pathlib.Path(cluster.kwok).parent / "stages"
        files = sorted(file for folder in STAGES for file in (stages / folder).glob("*.yaml"))
        found.append(Part("kwok", [
            cluster.kwok, f"--kubeconfig={cluster.kubeconfig}", "--manage-all-nodes=false",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake", "--node-lease-duration-seconds=40",
            f"--cidr={SIMULATED_POD_NETWORK}", "--v=WARN",
            f"--config={config}/kwok.json", *(f"--config={file}" for file in files),
        ], after=("kube-apiserver",)))
    return found


def simulated_node(index, tainted):
    name = f"crowd-{index}"
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"},
            "labels": {"type": "kwok", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
        },
        "status": {"capacity": {"cpu": "32", "memory": "256Gi", "pods": "110"},
                   "allocatable": {"cpu": "32", "memory": "256Gi", "pods": "110"}},
    }
    if tainted:
        node["spec"] = {"taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]}
    return node


def dns_objects():
    labels = {"k8s-app": "kube-dns"}
    where = {"name": "coredns", "namespace": "kube-system"}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": where},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "system:coredns"}, "rules": [
            {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], "verbs": ["list", "watch"]},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        ]},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "system:coredns"},
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"},
         "subjects": [{"kind": "ServiceAccount", **where}]},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": where, "data": {"Corefile": """\
.:53 {
  errors
  ready
  kubernetes cluster.local in-addr.arpa ip6.arpa {
    pods insecure
  }
  cache 5
}
"""}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {**where, "labels": labels}, "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "serviceAccountName": "coredns",
                "dnsPolicy": "Default",
                "priorityClassName": "system-cluster-critical",
                "nodeSelector": {"kubernetes.io/hostname": NODE},
                "containers": [{
                    "name": "coredns",
                    "image": images.COREDNS,
                    "imagePullPolicy": "IfNotPresent",
                    "args": ["-conf", "/etc/coredns/Corefile"],
                    "ports": [{"containerPort": 53, "name": "dns", "protocol": "UDP"},
                              {"containerPort": 53, "name": "dns-tcp", "protocol": "TCP"}],
                    "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
                    "resources": {"requests": {"cpu": "50m", "memory": "50Mi"}},
                    "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns"}],
                }],
                "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
            }},
        }},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": labels}, "spec": {
            "clusterIP": DNS_ADDRESS,
            "selector": labels,
            "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}],
        }},
    ]
