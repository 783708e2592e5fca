"""Container images from files of this machine, without a registry or a build tool: one layer, in the archive format of
`docker save`, which `ctr images import` takes."""
import hashlib
import io
import json
import os
import re
import subprocess
import tarfile
import tempfile

PREFIX = "tensor-fusion.local/"
PAUSE = PREFIX + "pause:1"
BUSYBOX = PREFIX + "busybox:1"
COREDNS = PREFIX + "coredns:1"
# What puts an archive on standard input into the node.
IMPORT = ("ctr", "--namespace", "k8s.io", "images", "import", "-")

_PAUSE_SOURCE = r"""
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void stop(int signal) { (void)signal; _exit(0); }
static void reap(int signal) { (void)signal; while (waitpid(-1, 0, WNOHANG) > 0) {} }
int main() {
  signal(SIGTERM, stop);
  signal(SIGINT, stop);
  signal(SIGCHLD, reap);
  for (;;) pause();
}
"""


def write_image(stream, name, files, links=(), entrypoint=(), command=()):
    """Writes the image NAME to the binary STREAM.

    files: path in the image -> path here; links: (path in the image, target). All are owned by root, files are executable.
    """
    with tempfile.TemporaryFile() as layer:
        with tarfile.open(fileobj=layer, mode="w") as tar:
            folders = {os.path.dirname(path) for path in [*files, *(path for path, _ in links)]} | {"tmp"}
            for folder in sorted(folders - {""}):
                entry = tarfile.TarInfo(folder)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
                tar.addfile(entry)
            for path, source in files.items():
                entry = tarfile.TarInfo(path)
                entry.size, entry.mode = os.path.getsize(source), 0o755
                with open(source, "rb") as data:
                    tar.addfile(entry, data)
            for path, target in links:
                entry = tarfile.TarInfo(path)
                entry.type, entry.linkname = tarfile.SYMTYPE, target
                tar.addfile(entry)
        size = layer.tell()
        layer.seek(0)
        digest = hashlib.file_digest(layer, "sha256").hexdigest()
        layer.seek(0)
        config = json.dumps({
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": list(entrypoint), "Cmd": list(command), "Env": ["PATH=/bin:/usr/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }).encode()
        manifest = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
        with tarfile.open(fileobj=stream, mode="w|") as tar:
            for path, data, length in (("manifest.json", io.BytesIO(manifest), len(manifest)),
                                       ("config.json", io.BytesIO(config), len(config)), ("layer.tar", layer, size)):
                entry = tarfile.TarInfo(path)
                entry.size = length
                tar.addfile(entry, data)


def program_files(path):
    """A program of this machine with the libraries that it is linked to: path in an image -> path here."""
    listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout  # fails for a static one
    libraries = re.findall(r"(?m)^\s+(?:\S+ => )?(/\S+) \(", listed)
    return {file.lstrip("/"): file for file in [path, *libraries]}


def write_node_images(stream_of, coredns):
    """The images of a true node: pause, busybox and, unless it is None, CoreDNS. STREAM_OF(name) opens where each goes."""
    with tempfile.TemporaryDirectory() as folder:
        source, pause = f"{folder}/pause.c", f"{folder}/pause"
        with open(source, "w", encoding="utf-8") as file:
            file.write(_PAUSE_SOURCE)
        subprocess.run(["cc", "-static", "-Os", "-s", "-o", pause, source], check=True)
        with stream_of(PAUSE) as stream:
            write_image(stream, PAUSE, {"pause": pause}, entrypoint=["/pause"])
    applets = subprocess.run(["/bin/busybox", "--list"], capture_output=True, text=True, check=True).stdout.split()
    with stream_of(BUSYBOX) as stream:
        write_image(stream, BUSYBOX, program_files("/bin/busybox"),
                    [(f"bin/{name}", "busybox") for name in applets if name != "busybox"], command=["/bin/sh"])
    if coredns:
        with stream_of(COREDNS) as stream:
            write_image(stream, COREDNS, {"coredns": coredns}, entrypoint=["/coredns"])
