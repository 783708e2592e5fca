"""A real Kubernetes on one machine for tests and for trying things out; `tools/cluster` is its command line.

  cluster       one cluster as its user sees it: up, down, status, load, exec
  keeper        the two processes that hold a cluster: the keeper outside, and the init that starts and restarts its parts
  parts         what the parts are: their commands and configuration
  certificates  keys and certificates, by the openssl program
  images        container images from files of this machine, without a registry
  api           a small client of the API server
  linux         the kernel's calls that Python 3.11 has no words for: namespaces, mounts, death signals; cgroups

A cluster with true nodes lives in a mount, a network and a process-id namespace of its own, which nothing but its
processes holds: there is no name for them in /run/netns. So fixed ports and addresses never collide, and when the init
dies, in whatever way, the kernel ends every process, mount, device and iptables rule of the cluster with it. What is left
then is a folder and empty cgroups, which `down`, or the next `up`, removes. The first true node is where the control plane
runs; each further one has a mount and a network namespace of its own in there, as a machine beside it.

A cluster of simulated nodes alone needs no root: its parts are processes on loopback ports of this machine, which the
kernel ends with the init too.
"""
