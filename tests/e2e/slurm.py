#!/usr/bin/env python3
"""jobs/*.sbatch under a Slurm of our own, of one node, this one. Needs root, and what Debian calls slurmctld, slurmd, slurm-client,
slurm-wlm-basic-plugins and munge; nothing of what is configured on this machine is used or changed.
slurm.py CASE STENCIL MPIEXEC   |   slurm.py --list

Exit 0: as specified; 1: not, saying how; 77: cannot be checked here, saying why.
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import PATIENCE, SOURCE, Running, case, check, main, same_bits, skip

CONFIG = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket
MpiDefault=pmix
SlurmUser=root
SlurmdUser=root
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.pid
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
KillWait=15
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 Sockets=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=500 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=1:00:00 State=UP
"""
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "scontrol")


class Cluster:
    """Daemons in the foreground, in a folder of their own; use it in a `with`."""

    def __init__(self, program):
        path = os.environ["PATH"] + ":/usr/sbin:/sbin"
        missing = [name for name in PROGRAMS if not shutil.which(name, path=path)]
        if os.geteuid() or missing:
            skip(f"needs root and Slurm: {', '.join(missing) or 'not root'}")
        self.program, self.root = program, program.root / "slurm"
        for name in ("state", "spool"):
            (self.root / name).mkdir(parents=True)
        self.root.chmod(0o755)
        self.root.parent.chmod(0o755)  # munge wants to be reachable
        (self.root / "munge.key").write_bytes(os.urandom(1024))
        (self.root / "munge.key").chmod(0o600)
        ports, sockets = [], [socket.socket(), socket.socket()]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
            ports.append(s.getsockname()[1])
        for s in sockets:
            s.close()
        host = socket.gethostname().split(".")[0]
        (self.root / "slurm.conf").write_text(CONFIG.format(host=host, root=self.root, ports=ports))
        program.environment.update(PATH=path, SLURM_CONF=str(self.root / "slurm.conf"), STENCIL=program.path)
        self.daemons = []

    def __enter__(self):
        munge = [f"--{name}={self.root}/munge.{end}" for name, end in
                 (("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed"))]
        for command in (["munged", "--foreground", "--force", *munge], ["slurmctld", "-D"], ["slurmd", "-D"]):
            with open(self.root / f"{command[0]}.out", "w") as out:
                self.daemons.append(subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                                     env=self.program.environment, start_new_session=True))
            time.sleep(1)
        end = time.monotonic() + 30
        while "idle" not in self.ask("sinfo", "-h", "-o", "%t"):
            if time.monotonic() > end or any(d.poll() is not None for d in self.daemons):
                skip("Slurm does not start here: " + (self.root / "slurmd.out").read_text()[-300:])
            time.sleep(0.5)
        return self

    def __exit__(self, *_):
        self.ask("scancel", "--state=running", "--full")
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()

    def ask(self, *command):
        return subprocess.run(command, capture_output=True, text=True, check=False, env=self.program.environment,
                              cwd=self.program.folder, stdin=subprocess.DEVNULL).stdout

    def state(self, job):
        """(state, exit code, restarts) of a job."""
        said = self.ask("scontrol", "show", "job", job)
        return tuple(re.search(rf"{key}=(\S+)", said).group(1) for key in ("JobState", "ExitCode", "Restarts"))

    def wait(self, job, happened, what):
        end = time.monotonic() + 2 * PATIENCE  # a job that is put back waits for 2 minutes
        while not happened(self.state(job)):
            check(time.monotonic() < end, f"job {job}: no {what} within {2 * PATIENCE} s: {self.state(job)}")
            time.sleep(0.3)

    def start_leg(self, name, config, *options, script=SOURCE / "jobs/restart.sbatch"):
        """Starts restart.sbatch by LAUNCH=`name`; the job's number, once it steps, and its log."""
        self.program.environment["LAUNCH"] = name
        said = self.ask("sbatch", "--ntasks=3", *options, f"--output=out/{name}.log", str(script), config,
                        f"output.path=out/{name}", f"checkpoint.path=out/{name}")
        job, log = re.search(r"job (\d+)", said).group(1), self.program.folder / f"out/{name}.log"
        self.wait(job, lambda _: log.exists() and "kernel auto:" in log.read_text(), "start")
        time.sleep(0.5)
        return job, log


@case
def slow_requeue(program):
    """jobs/restart.sbatch, by srun and by mpirun: exit 75 puts the job back into the queue, and the next leg goes on."""
    config = program.config({"grid.nx": 64, "grid.ny": 64, "grid.nz": 64, "time.steps": 30000, "equation.type": "wave",
                             "checkpoint.path": "out/c", "report.progress": "off"})
    with Cluster(program) as cluster:
        jobs = {}
        for launch in ("srun", "mpirun"):  # both at once: Slurm lets a job wait for 2 minutes before its next leg
            jobs[launch], _ = cluster.start_leg(launch, config, "--time=10")
            cluster.ask("scancel", "--signal=USR1", "--batch", jobs[launch])
        for launch, job in jobs.items():
            log = program.folder / f"out/{launch}.log"
            cluster.wait(job, lambda s: s[0] in ("COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL"), "end")
            check(cluster.state(job) == ("COMPLETED", "0:0", "1"), f"{launch}: {cluster.state(job)}: {log.read_text()}")
            check(re.search(r"stopped after step \d+ of 30000: User defined signal 1", log.read_text()), log.read_text())
    program.succeed("-q", config, "output.path=out/ref")
    for launch in jobs:
        check(same_bits(program.field(30000, f"out/{launch}"), program.field(30000, "out/ref")), f"{launch}: other bits")


@case
def slow_cancel(program):
    """scancel ends jobs/restart.sbatch for good, its checkpoint written; a time limit of Slurm's own puts it back."""
    config = program.config({"grid.nx": 64, "grid.ny": 64, "grid.nz": 64, "time.steps": 10**8, "equation.type": "wave",
                             "report.progress": "off"})
    unsignalled = program.folder / "unsignalled.sbatch"
    text = (SOURCE / "jobs/restart.sbatch").read_text()
    unsignalled.write_text(re.sub(r"#SBATCH --signal=.*\n", "", text))
    check(text.count("#SBATCH --signal=") == 1, "the script asks for no signal")
    with Cluster(program) as cluster:
        limited, log = cluster.start_leg("srun", config, "--time=1", script=unsignalled)
        cluster.wait(limited, lambda state: state[2] == "1", "second leg")
        check("back into the queue" in log.read_text(), log.read_text())
        cluster.ask("scancel", limited)
        for launch in ("srun", "mpirun"):
            for old in program.folder.glob("out/*"):
                old.unlink()
            job, log = cluster.start_leg(launch, config, "--time=10")
            cluster.ask("scancel", job)
            cluster.wait(job, lambda state: state[0] == "CANCELLED", "end")
            # Slurm tells mpirun too, which then ends its ranks: the script sees no exit 75.
            check(launch == "mpirun" or "cancelled; the checkpoint is there" in log.read_text(), log.read_text())
            check("back into the queue" not in log.read_text() and cluster.state(job)[2] == "0", f"{launch}: {log.read_text()}")
            check(list(program.folder.glob(f"out/{launch}.*.h5")), f"{launch}: no checkpoint: {program.files()}")


@case
def slow_srun(program):
    """srun hands over signals and exit codes, and ends all ranks when one dies or the watchdog speaks."""
    config = program.config({"grid.nx": 64, "grid.ny": 64, "grid.nz": 64, "time.steps": 100000000, "equation.type": "wave",
                             "checkpoint.path": "out/c", "report.progress": "off"})
    with Cluster(program):
        launcher = program.root / "launcher"  # what takes -np
        launcher.write_text('#!/bin/bash\nexec srun --mpi=pmix -n "$2" "${@:3}"\n')
        launcher.chmod(0o755)
        program.mpiexec = str(launcher)
        for number, to, codes, words in ((signal.SIGUSR1, "srun", [75], "stopped after step"),
                                         (signal.SIGKILL, "rank", [137], "Killed"),
                                         (signal.SIGSTOP, "rank", [4, 137], r"rank 1 has not finished step \d+ after 2 s")):
            with Running(program, config, "parallel.watchdog_seconds=2", np=3) as leg:
                leg.wait_until_it_steps()
                pids = program.processes("SLURM_PROCID")
                os.kill(pids[1] if to == "rank" else leg.process.pid, number)
                result = leg.wait()
            check(result.code in codes and re.search(words, result.err), f"{number.name} to {to}: {result}")
            check(not program.processes("SLURM_PROCID"), f"{number.name} to {to}: ranks are left")
            print(f"{number.name} to {to}: exit {result.code}", flush=True)


if __name__ == "__main__":
    main()
