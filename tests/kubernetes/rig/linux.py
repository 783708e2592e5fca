"""The kernel's calls that Python 3.11 has no words for, and what else is particular to Linux: processes and cgroups."""
import ctypes
import os
import pathlib
import signal
import time

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
MS_REC = 0x4000
MS_PRIVATE = 1 << 18
MS_SHARED = 1 << 20
MS_BIND = 0x1000
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def _check(what, result):
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def unshare(flags):
    _check("unshare", _libc.unshare(flags))


def setns(descriptor, kind):
    """Moves the calling thread into a namespace; of CLONE_NEWPID only its later children."""
    _check("setns", _libc.setns(descriptor, kind))


def mount(source, target, filesystem=None, flags=0, options=None):
    encode = lambda value: None if value is None else os.fsencode(value)
    _check(f"mount {target}", _libc.mount(encode(source), encode(target), encode(filesystem), ctypes.c_ulong(flags), encode(options)))


def die_with_parent():
    """The kernel kills the calling process when the thread that forked it ends."""
    _check("prctl", _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0))


def adopt_orphans():
    """Descendants whose parent ends become children of the calling process."""
    _check("prctl", _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def process_ids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def has_mark(pid, mark):
    """Whether a process has the string MARK (NAME=VALUE) in the environment that it was started with."""
    try:
        return os.fsencode(mark) in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def marked_processes(mark):
    return [pid for pid in process_ids() if pid != os.getpid() and has_mark(pid, mark)]


def kill_marked(mark, timeout=30):
    """Ends all processes with MARK, by SIGKILL, and waits until none is left."""
    deadline = time.monotonic() + timeout
    while found := marked_processes(mark):
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {found} are still there {timeout} s after SIGKILL")
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)


def run_inside(process, command, environment):
    """Runs COMMAND in the network, mount and process-id namespaces of PROCESS, in the folder of the same path; returns its
    exit status, 128 and more for a signal. It gets the signals that would end the caller, and ends when the caller does."""
    folder = os.getcwd()
    kinds = {"net": CLONE_NEWNET, "mnt": CLONE_NEWNS, "pid": CLONE_NEWPID}
    namespaces = [(os.open(f"/proc/{process}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), kind) for name, kind in kinds.items()]
    for descriptor, kind in namespaces:
        setns(descriptor, kind)
    os.chdir(folder)
    return run(command, environment)


def run(command, environment):
    """Runs COMMAND as run_inside does, here."""
    child = os.fork()
    if child == 0:
        try:
            die_with_parent()
            os.execvpe(command[0], command, environment)
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        finally:
            os._exit(127)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda received, _: os.kill(child, received))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to both
    signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def memory_mib(pid):
    """Resident memory of a process, or 0 when it is gone."""
    try:
        return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20
    except (OSError, IndexError):
        return 0


def cpu_seconds(pid):
    """Processor time that a process has used so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cgroup_roots():
    """The folders under which a cgroup is made: one for each version 1 hierarchy, and that of version 2."""
    roots = []
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        _, target, kind, *_ = line.split(" ")
        if kind in ("cgroup", "cgroup2"):
            roots.append(pathlib.Path(target))
    return roots


def make_cgroup(name):
    for root in cgroup_roots():
        (root / name).mkdir(exist_ok=True)


def remove_cgroup(name, timeout=10):
    """Removes the cgroup and all below it; none may hold a process. The kernel lets go of the last one a moment late."""
    deadline = time.monotonic() + timeout
    for root in cgroup_roots():
        for folder, _, _ in os.walk(root / name, topdown=False):
            while True:
                try:
                    os.rmdir(folder)
                    break
                except FileNotFoundError:
                    break
                except OSError as error:
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"{folder} cannot be removed: {error.strerror}") from error
                    time.sleep(0.02)
