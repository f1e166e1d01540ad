"""A network of hosts on one machine, made of the kernel's namespaces: no host sees another's files or processes.

The process that makes the network is in a network namespace of its own (``go_inside``), in which the bridge is. All
ends with it: it is the parent of each host's first process, and that one's end is the end of the host.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from chaos.processes import Process, kill, running
from lakelog.service.servers.jars import jar_cache, resolve_jars
from lakelog.service.servers.server_process import QUICK_START
from servers.spark_home import SPARK_HOME

ROOT: Final = Path(__file__).parents[2]
_INSIDE: Final = "LAKELOG_TEST_NETWORK"
_PROGRAMS: Final = ("unshare", "nsenter", "ip", "bridge", "mount", "chroot", "bash")
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt")
_NETWORK: Final = "10.77.0"
_BRIDGE: Final = "wire"
CLASS_ARCHIVE: Final = Path(sys.prefix) / "spark-classes.jsa"
_SEPARATE: Final = ("--net", "--mount", "--uts", "--pid")
_INIT: Final = "hostname {name} && ip link set lo up && {mounts} && exec chroot {root} bash -c '{wait}'"
_WAIT: Final = "echo up; while sleep 3600; do :; done"
"""Bash as the first process takes the orphans of all others in."""


class NoHosts(Exception):
    """This machine cannot make hosts."""


def check_machine() -> None:
    """Raises NoHosts, with what is missing, where the namespaces of a host cannot be made."""
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        raise NoHosts(f"hosts for tests need {', '.join(missing)}: install util-linux and iproute2")
    if os.geteuid():
        raise NoHosts("hosts for tests are made of namespaces of the kernel: run this as root")
    probe = [
        "unshare",
        *_SEPARATE,
        "--fork",
        "bash",
        "-c",
        "ip link add probe type bridge && ip link add left type veth",
    ]
    done = subprocess.run(probe, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoHosts(
            f"this machine does not let root make namespaces with a bridge and a pair of veth: {done.stderr.strip()}. "
            "Run this on a machine, or in a container, with the rights CAP_SYS_ADMIN and CAP_NET_ADMIN"
        )


def go_inside(module: str, arguments: Sequence[str], downloads: Sequence[Sequence[str]]) -> None:
    """Returns in a process that is in a namespace for a network; another one becomes the same command in one.

    It fetches jars first. Raises NoHosts.
    """
    if os.environ.get(_INSIDE):
        return
    check_machine()
    for jars in downloads:  # there is no other network inside
        resolve_jars(jars)
    sys.stdout.flush()
    environment = {**os.environ, _INSIDE: "1"}
    command = ["unshare", "--net", "--mount", sys.executable, "-m", module, *arguments]
    os.execvpe(command[0], command, environment)


class Network:
    """A bridge and its hosts, made by ``with`` in a process that has gone inside."""

    def __init__(self, directory: Path, names: Sequence[str], notes: Path | None = None) -> None:
        """``notes`` is a directory for the judge of a run, the only one that all hosts have in common."""
        self.directory, self.notes = directory.absolute(), notes
        addresses = {name: f"{_NETWORK}.{number}" for number, name in enumerate(names, 10)}
        self.hosts = {name: Host(self, name, address) for name, address in addresses.items()}
        self._names = {"localhost": "127.0.0.1", "judge": f"{_NETWORK}.1", **addresses}

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        lines = "".join(f"{address} {name}\n" for name, address in self._names.items())
        (self.directory / "hosts").write_text(lines, encoding="ascii")
        (self.directory / "resolv.conf").touch()
        for name in ("hosts", "resolv.conf"):
            _run("mount", "--bind", str(self.directory / name), f"/etc/{name}")
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", _BRIDGE, "type", "bridge")
        _run("ip", "address", "add", f"{_NETWORK}.1/24", "dev", _BRIDGE)
        _run("ip", "link", "set", _BRIDGE, "up")
        try:
            for host in self.hosts.values():
                host.boot()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for host in self.hosts.values():
            host.power_off()

    @contextlib.contextmanager
    def without(self, *hosts: Host) -> Iterator[None]:
        """A block in which these hosts are off the network: what they send is lost, without an answer."""
        for host in hosts:
            _run("ip", "link", "set", host.port, "down")
        try:
            yield
        finally:
            for host in hosts:
                if host.is_up:
                    _run("ip", "link", "set", host.port, "up")

    @contextlib.contextmanager
    def parted(self, *hosts: Host) -> Iterator[None]:
        """A block in which these hosts reach all others, but not each other."""
        for host in hosts:
            _run("bridge", "link", "set", "dev", host.port, "isolated", "on")
        try:
            yield
        finally:
            for host in hosts:
                if host.is_up:
                    _run("bridge", "link", "set", "dev", host.port, "isolated", "off")


class Host:
    """A machine: ``disk`` outlives a loss of power, ``/tmp`` and all processes do not.

    The programs, lakelog and its Python are on each, read only. ``disk`` has the same path on its host and here, and
    exists on no other host.
    """

    def __init__(self, network: Network, name: str, address: str) -> None:
        self.name, self.address, self.port = name, address, f"to-{name}"
        self._network, self._root = network, network.directory / name / "root"
        self.disk = network.directory / name / "disk"
        self._init: subprocess.Popen[str] | None = None
        self._pid = 0
        self.variables: dict[str, str] = {}
        """More variables of its processes."""

    @property
    def is_up(self) -> bool:
        """Whether it has power."""
        return self._init is not None

    def boot(self) -> None:
        """Starts it, with an empty ``/tmp`` and no process."""
        self._root.mkdir(parents=True, exist_ok=True)
        self.disk.mkdir(exist_ok=True)
        script = _INIT.format(name=self.name, mounts=" && ".join(self._mounts()), root=self._root, wait=_WAIT)
        command = ["unshare", *_SEPARATE, "--fork", "--kill-child", "bash", "-c", script]
        with (self._root.parent / "boot.log").open("w", encoding="utf-8") as log:
            self._init = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True, start_new_session=True
            )
        assert self._init.stdout is not None
        if self._init.stdout.readline().strip() != "up":
            raise NoHosts(f"host {self.name} did not start: {(self._root.parent / 'boot.log').read_text('utf-8')}")
        children = Path(f"/proc/{self._init.pid}/task/{self._init.pid}/children").read_text(encoding="ascii").split()
        self._pid = int(children[0])
        _run("ip", "link", "add", self.port, "type", "veth", "peer", "name", "eth0", "netns", str(self._pid))
        _run("ip", "link", "set", self.port, "master", _BRIDGE, "up")
        own = ["nsenter", f"--target={self._pid}", "--net", "ip"]
        _run(*own, "address", "add", f"{self.address}/24", "dev", "eth0")
        _run(*own, "link", "set", "eth0", "up")

    def power_off(self) -> None:
        """Ends it at once: its processes, connections and ``/tmp``, but not its disk."""
        if self._init is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)  # the kernel kills the other processes of its namespace
        # who has entered it may be stopped, and the namespace lasts until its processes have been waited for
        kill([process for process in running() if f"--target={self._pid} " in process.command])
        self._init.wait()
        assert self._init.stdout is not None
        self._init.stdout.close()
        self._init = None
        subprocess.run(["ip", "link", "delete", self.port], capture_output=True, check=False)  # gone, or going

    def command(
        self, command: Sequence[str], more: Mapping[str, str] | None = None, directory: str | Path = "/tmp"
    ) -> list[str]:
        """A command as this process starts it so that it runs on this host, with more variables, in a directory."""
        assert self.is_up, f"host {self.name} is off"
        variables = {**self.environment(), **(more or {})}
        enter = ["nsenter", f"--target={self._pid}", *_SEPARATE, "--root", "env", "-i", f"--chdir={directory}"]
        return [*enter, *(f"{name}={value}" for name, value in variables.items()), *command]

    def environment(self) -> dict[str, str]:
        """The variables of its processes: nothing of the machine around it."""
        return {
            "PATH": f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": "/tmp",
            "LANG": "C.UTF-8",
            "PYTHONPATH": f"{ROOT}/src:{ROOT}/tests",
            "PYTHONDONTWRITEBYTECODE": "1",
            "LAKELOG_CACHE": str(jar_cache().parent),
            "JAVA_TOOL_OPTIONS": _java_options(),
            "SPARK_HOME": str(SPARK_HOME),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            **self.variables,
        }

    def processes(self, what: str = "") -> list[Process]:
        """Its processes whose command has a text, except the first one."""
        space = _space(self._pid)
        own = [process for process in running() if process.pid != self._pid and _space(process.pid) == space]
        return [process for process in own if what in process.command and not process.command.startswith("sleep 3600")]

    def kill(self, what: str) -> int:
        """kill -9 of its processes whose command has a text; how many."""
        found = self.processes(what)
        kill(found)
        return len(found)

    def _mounts(self) -> Iterator[str]:
        yield "mount --make-rprivate /"
        yield f"mount -t tmpfs -o mode=755 none {self._root}"
        system = [Path(path) for path in _SYSTEM if Path(path).exists()]
        yield from self._bound([path for path in system if not path.is_symlink()])
        for path in system:
            if path.is_symlink():
                yield f"ln -s {os.readlink(path)} {self._root}{path}"
        yield f"mkdir -p {self._root}/tmp {self._root}/var/tmp {self._root}/run {self._root}/proc {self._root}/dev"
        yield f"chmod 1777 {self._root}/tmp {self._root}/var/tmp"
        yield from self._bound(_installed())  # some of it may be below /tmp
        for own in filter(None, (self.disk, self._network.notes)):
            yield f"mkdir -p {self._root}{own} && mount --bind {own} {self._root}{own}"
        yield f"mount --rbind /dev {self._root}/dev && mount -t tmpfs -o mode=1777 none {self._root}/dev/shm"
        yield f"mount -t proc none {self._root}/proc"
        for name in ("hosts", "resolv.conf"):
            yield f"mount --bind {self._network.directory / name} {self._root}/etc/{name}"

    def _bound(self, paths: Sequence[Path]) -> Iterator[str]:
        for path in paths:
            target = f"{self._root}{path}"
            if path.is_dir():
                yield f"mkdir -p {target}"
            else:
                yield f"mkdir -p {Path(target).parent} && touch {target}"
            yield f"mount --bind {path} {target} && mount -o remount,bind,ro {target}"


def _installed() -> list[Path]:
    """What each host has beside the system: Python, lakelog with its tests, and jars."""
    own = [Path(sys.base_prefix), Path(sys.prefix), CLASS_ARCHIVE.resolve(), jar_cache().parent]
    own += [ROOT / "src", ROOT / "tests", *(Path(path) for path in sys.path if path.endswith("site-packages"))]
    found: list[Path] = []
    for path in sorted({path for path in own if path.exists()}):
        if not any(map(path.is_relative_to, (*found, *_SYSTEM))):
            found.append(path)
    return found


def _java_options() -> str:
    """As those of other tests (``conftest``), without a place for what a JVM leaves behind."""
    options = [QUICK_START, "-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true"]
    if CLASS_ARCHIVE.exists() and CLASS_ARCHIVE.stat().st_size:
        options += [f"-XX:SharedArchiveFile={CLASS_ARCHIVE}", "-Xlog:disable", "-Xlog:all=error:stderr"]
    return " ".join(options)


def _space(process: int) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{process}/ns/pid")
    return ""


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoHosts(f"{' '.join(command)}: {done.stderr.strip()}")
