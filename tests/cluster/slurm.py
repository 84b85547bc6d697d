"""A Slurm of one node with accounting, all of it in one folder: munge, MariaDB, slurmdbd, slurmctld and slurmd.

Nothing is written outside the folder and nothing is a service of the machine: every daemon stays in the foreground as a
child of ours, so that it can be stopped by its pid.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tracking_server import free_port

PROGRAMS = ("munged", "mariadbd", "mariadb-install-db", "slurmdbd", "slurmctld", "slurmd", "sbatch", "sacctmgr")
CPUS = 4
MEMORY_MB = 20_000
_PATIENCE_SECONDS = 90.0

_SLURM_CONF = """\
ClusterName=alignlens
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld}
SlurmdPort={slurmd}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/ctld
SlurmdSpoolDir={folder}/slurmd
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
# A job starts when it is submitted, not up to three seconds later with others.
SchedulerParameters=batch_sched_delay=0
ReturnToService=2
MinJobAge=86400
KillWait=5
JobRequeue=0
# Memory limits hold without cgroups: a job that takes more is killed at the next look.
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd}
AccountingStoragePass={folder}/munge/socket
AccountingStoreFlags=job_comment
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""

_SLURMDBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={dbd}
SlurmUser=root
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={mysql}
StorageUser=slurm
StoragePass={password}
StorageLoc=slurm_acct_db
"""


def why_not() -> str | None:
    """Tells what keeps a Slurm from running here; None if nothing does."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (tests/cluster/install.sh installs them on Debian and Ubuntu)"
    return None if os.getuid() == 0 else "Slurm's daemons are started as root here, and this is not root"


def _path() -> str:
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


@dataclass
class Slurm:
    """The daemons, and the environment in which clients find them."""

    folder: Path
    ports: dict[str, int] = field(default_factory=dict)
    daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.folder / "bin"), _path()])
        return {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": path}

    def start(self) -> None:
        """Brings everything up, each daemon after the one it needs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.ports = {name: free_port() for name in ("ctld", "slurmd", "dbd", "mysql")}
        password = os.urandom(12).hex()
        known = {
            **self.ports,
            "folder": self.folder,
            "host": socket.gethostname().partition(".")[0],
            "cpus": CPUS,
            "memory": MEMORY_MB,
            "password": password,
        }
        (self.folder / "slurm.conf").write_text(_SLURM_CONF.format(**known))
        secret = self.folder / "slurmdbd.conf"
        secret.touch(0o600)
        secret.write_text(_SLURMDBD_CONF.format(**known))
        for name in ("munge", "ctld", "slurmd", "mysql", "bin"):
            (self.folder / name).mkdir()
        # The executor clears SLURM_* before it starts a step: this srun knows where its configuration is.
        wrapper = self.folder / "bin" / "srun"
        wrapper.write_text(f'#!/bin/sh\nSLURM_CONF={self.folder}/slurm.conf exec {shutil.which("srun")} "$@"\n')
        wrapper.chmod(0o755)
        self._start_munge()
        self._start_mariadb(password)
        self._spawn("slurmdbd", "-D")
        self._wait("slurmdbd", lambda: self.run("sacctmgr", "--noheader", "show", "cluster").returncode == 0)
        for what in (("cluster", "alignlens"), ("account", "default"), ("user", "root", "Account=default")):
            self.run("sacctmgr", "--immediate", "add", *what)
        self._spawn("slurmctld", "-D")
        self._wait("slurmctld", lambda: self.run("scontrol", "ping").returncode == 0)
        self._spawn("slurmd", "-D")
        self._wait("slurmd", lambda: self.run("sinfo", "--noheader", "--format=%t").stdout.strip() == "idle")

    def _start_munge(self) -> None:
        munge = self.folder / "munge"
        munge.chmod(0o755)
        (munge / "key").touch(0o600)
        (munge / "key").write_bytes(os.urandom(1024))
        names = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        self._spawn("munged", "--foreground", "--force", *(f"--{key}={munge / name}" for key, name in names.items()))
        self._wait("munged", (munge / "socket").exists)

    def _start_mariadb(self, password: str) -> None:
        data, local = self.folder / "mysql", self.folder / "mysql" / "socket"
        with (self.folder / "mariadb-install-db.log").open("wb") as log:
            subprocess.run(
                ["mariadb-install-db", "--user=root", f"--datadir={data}", "--auth-root-authentication-method=socket"],
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
                check=True,
            )
        self._spawn(
            "mariadbd",
            "--no-defaults",
            "--user=root",  # temporary folders are closed to others
            f"--datadir={data}",
            f"--socket={local}",
            "--bind-address=127.0.0.1",
            f"--port={self.ports['mysql']}",
            "--innodb-buffer-pool-size=64M",
        )
        client = ("mariadb", "--no-defaults", "--user=root", f"--socket={local}")
        self._wait("mariadbd", lambda: self.run(*client, "--execute=select 1").returncode == 0)
        statements = (
            "create database slurm_acct_db",
            f"create user slurm@'127.0.0.1' identified by '{password}'",
            f"create user slurm@localhost identified by '{password}'",
            "grant all on slurm_acct_db.* to slurm@'127.0.0.1'",
            "grant all on slurm_acct_db.* to slurm@localhost",
        )
        done = self.run(*client, given=";".join(statements))
        assert done.returncode == 0, done.stderr

    def run(self, *command: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        """Runs a client."""
        return subprocess.run(
            command, input=given, capture_output=True, text=True, env={**os.environ, **self.environment}, check=False
        )

    def jobs(self) -> list[tuple[str, str, str]]:
        """Returns number, state and comment of every job of the last minutes, the first one first."""
        listed = self.run("squeue", "--noheader", "--states=all", "--sort=i", "--format=%i|%T|%k").stdout
        return [(number, state, text) for number, state, text in (line.split("|", 2) for line in listed.splitlines())]

    def _spawn(self, name: str, *arguments: str) -> None:
        program = shutil.which(name, path=_path()) or name
        with (self.folder / f"{name}.log").open("wb") as log:
            self.daemons.append(
                subprocess.Popen(
                    [program, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **self.environment},
                )
            )

    def _wait(self, name: str, ready: Callable[[], bool]) -> None:
        until = time.monotonic() + _PATIENCE_SECONDS
        while not ready():
            if self.daemons[-1].poll() is not None or time.monotonic() > until:
                pytest.fail(f"{name} did not come up:\n{_end_of(self.folder / f'{name}.log')}")
            time.sleep(0.2)

    def stop(self) -> None:
        """Ends jobs and daemons, the last one started first; a daemon that does not listen is killed."""
        self.run("scancel", "--user=root")
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.daemons.clear()


def _end_of(path: Path, lines: int = 20) -> str:
    found: Sequence[str] = path.read_text(errors="replace").splitlines() if path.exists() else ()
    return "\n".join(found[-lines:])
