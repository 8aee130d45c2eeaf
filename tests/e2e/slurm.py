#!/usr/bin/env python3
"""The program and jobs/*.sbatch under Slurm, on nodes of our own (cluster.py).
slurm.py CASE STENCIL MPIEXEC   |   slurm.py --list
"""
import json
import os
import re
import signal
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from cluster import Cluster, isolate
from harness import SOURCE, Running, case, check, main, same_bits

ENDLESS = 10**8  # steps: only an event ends such a run
RUN = {"grid.nx": 24, "grid.ny": 24, "grid.nz": 48, "equation.type": "wave", "boundary.all": "absorbing", "boundary.width": 5,
       "time.steps": ENDLESS, "checkpoint.every_steps": 10, "checkpoint.keep": 3, "report.progress": "off"}


def hosts(out):
    """How many ranks --verbose lists on each node."""
    found = re.findall(r"^  rank \d+: (\w+), ", out, re.M)
    return {name: found.count(name) for name in found}


def checkpoints(program, name):
    """The steps of the checkpoints of a run, in order."""
    return sorted(int(path.name.split(".")[-2]) for path in program.folder.glob(f"out/{name}.checkpoint.*.h5"))


def log_of(program, name):
    path = program.folder / f"out/{name}.log"
    return path.read_text() if path.exists() else ""


def mpirun_job(program, *args):
    """A batch script that runs the program by mpirun."""
    path = program.folder / "mpirun.sbatch"
    path.write_text("#!/bin/bash\nexec mpirun ./stencil " + " ".join(args) + "\n")
    return path.name


def start(cluster, name, script, *options, launch=None, arguments=("run.ini",)):
    """Submits a script whose run is called `name`; its job's number, once there is a checkpoint."""
    env = {"LAUNCH": launch} if launch else {}
    job = cluster.submit(*options, f"--job-name={name}", f"--output=out/{name}.log", "--open-mode=append", script, *arguments,
                         f"output.path=out/{name}", env=env)
    cluster.until(lambda: checkpoints(cluster.program, name), "checkpoint", job)
    return job


def check_same(program, names, steps):
    """All runs have ended with the field of a run of one process."""
    program.succeed("-q", "run.ini", f"time.steps={steps}", "output.path=out/alone", "checkpoint.every_steps=0")
    for name in names:
        check(same_bits(program.field(steps, f"out/{name}"), program.field(steps, "out/alone")), f"{name}: other bits")


def let_start(cluster, job):
    """Lets a job that is back in the queue start. By itself it waits for 2 minutes once it has cleaned up. It must not start within
    the second in which a node ended the run before: the node would refuse it ("Job credential revoked")."""
    cluster.until(lambda: cluster.state(job)[0] != "COMPLETING", "clean-up", job)
    cluster.ask("scontrol", "update", f"JobId={job}", "StartTime=now+2")


def let_end(cluster, jobs):
    """Lets jobs that are back in the queue end soon: their next run reads a config with fewer steps, which are returned."""
    program = cluster.program
    steps = max(checkpoints(program, name)[-1] for name in jobs) + 20
    program.config({**RUN, "time.steps": steps})
    for name, job in jobs.items():
        let_start(cluster, job)
        check(cluster.wait_ended(job)[:2] == ("COMPLETED", "0:0"), f"{name}: {cluster.state(job)}: {log_of(program, name)}")
        check(f"restart from out/{name}.checkpoint." in log_of(program, name), log_of(program, name))
    return steps


@case
def slow_smoke(program):
    """srun and mpirun across nodes give the bits of one process; a run goes on on other numbers of nodes and ranks."""
    program.config({**RUN, "checkpoint.every_steps": 10})
    cluster = Cluster(program, nodes=3)
    out = cluster.ask("srun", "-N3", "-n5", "./stencil", "-v", "run.ini", "time.steps=20", "output.path=out/a")
    check(hosts(out) == {"node1": 3, "node2": 1, "node3": 1}, out)
    out = cluster.ask("srun", "-N1", "-n2", "./stencil", "-v", "-r", "auto", "run.ini", "time.steps=40", "output.path=out/a")
    check(hosts(out) == {"node1": 2} and "step 20" in out, out)
    job = cluster.submit("-N2", "-n4", "-o", "out/b.log", mpirun_job(program, "-v -r auto run.ini time.steps=60 output.path=out/a"))
    check(cluster.wait_ended(job)[0] == "COMPLETED" and hosts(log_of(program, "b")) == {"node1": 3, "node2": 1}, log_of(program, "b"))
    check_same(program, ["a"], 60)


@case
def slow_requeue(program):
    """jobs/restart.sbatch, by srun and by mpirun: exit 75 puts the job back into the queue, and the next run goes on."""
    program.config(RUN)
    cluster = Cluster(program)
    jobs = {launch: start(cluster, launch, "jobs/restart.sbatch", "-N2", "-n3", launch=launch) for launch in ("srun", "mpirun")}
    for job in jobs.values():
        cluster.ask("scancel", "--signal=USR1", "--batch", job)
    for name, job in jobs.items():
        cluster.until(lambda: cluster.state(job)[2] == "1", "second run", job)
        check(re.search(rf"stopped after step \d+ of {ENDLESS}: User defined signal 1", log_of(program, name)), log_of(program, name))
    check_same(program, jobs, let_end(cluster, jobs))


@case
def slow_cancel(program):
    """scancel ends jobs/restart.sbatch for good, its checkpoint written."""
    program.config(RUN)
    cluster = Cluster(program)
    for launch in ("srun", "mpirun"):
        job = start(cluster, launch, "jobs/restart.sbatch", "-N2", "-n3", launch=launch)
        cluster.ask("scancel", job)
        cluster.until(lambda: cluster.state(job)[0] == "CANCELLED" and not cluster.ask("squeue", "-h"), "end", job)
        log = log_of(program, launch)
        # Slurm tells mpirun too, which then ends its ranks: the script sees no exit 75.
        check(launch == "mpirun" or "cancelled; the checkpoint is there" in log, log)
        check("back into the queue" not in log and cluster.state(job)[2] == "0", f"{launch}: {log}")
        stopped = re.search(r"stopped after step (\d+)", log)
        check(launch == "mpirun" or checkpoints(program, launch)[-1] == int(stopped.group(1)), f"no checkpoint there: {log}")


@case
def slow_limits(program):
    """Every way to meet a job's time limit leaves a checkpoint in time, written for it."""
    program.config({**RUN, "checkpoint.every_steps": 10**7})
    plain = program.folder / "plain.sbatch"
    plain.write_text('#!/bin/bash\nenv -u SLURM_JOB_END_TIME srun ./stencil "$@"\necho "exit $?"\n')
    unsignalled = program.folder / "unsignalled.sbatch"
    text = (SOURCE / "jobs/restart.sbatch").read_text()
    check(text.count("#SBATCH --signal=") == 1, "the script asks for no signal")
    unsignalled.write_text(re.sub(r"#SBATCH --signal=.*\n", "", text))
    cluster = Cluster(program)
    jobs = {}
    for name, launch, script, options, said in (
            ("end_srun", "srun", unsignalled, [], "the wall time runs out"),
            ("end_mpirun", "mpirun", unsignalled, [], "the wall time runs out"),
            ("signal", "srun", plain, ["--signal=USR1@30"], "User defined signal 1"),
            ("limit", "srun", plain, [], "Terminated")):
        jobs[name] = said, cluster.submit("--time=1", "-N2", "-n2", *options, f"-oout/{name}.log", script, "run.ini",
                                          f"output.path=out/{name}", env={"LAUNCH": launch})
    for name, (said, job) in jobs.items():
        cluster.until(lambda: f": {said}" in log_of(program, name), said, job)
        cluster.until(lambda: cluster.state(job)[0] != "RUNNING", "end", job)
        step = int(re.search(r"stopped after step (\d+)", log_of(program, name)).group(1))
        check(checkpoints(program, name) == [step], f"{name}: stopped after {step}: {checkpoints(program, name)}")
        if name.startswith("end"):
            check("back into the queue" in log_of(program, name), log_of(program, name))
        print(f"{name}: {said}", flush=True)


@case
def slow_node_failure(program):
    """A node is lost, with or without the batch script, or only its daemon and step die: the job goes on from its checkpoint."""
    program.config(RUN)
    cluster = Cluster(program, nodes=3)
    for launch, victim in (("srun", 1), ("mpirun", 1), ("srun", 0)):
        name = f"{launch}_{victim}"
        job = start(cluster, name, "jobs/restart.sbatch", "-N2", "-n4", "--requeue", launch=launch)
        used = cluster.ask("scontrol", "show", "hostnames", *cluster.show(job, "NodeList")).split()
        lost = cluster.nodes[cluster.names.index(used[victim])]
        lost.lose_power()
        cluster.until(lambda: cluster.state(job)[2] == "1", "second run", job)
        newest = checkpoints(program, name)[-1]
        check_same(program, [name], let_end(cluster, {name: job}))
        print(f"{name}: lost {lost.name} of {used}, went on from step {newest}", flush=True)
        program.config(RUN)
        lost.boot()
        cluster.until(lambda: cluster.ask("sinfo", "-h", "-N", "-o", "%t").split() == ["idle"] * 3, "nodes that are idle")


@case
def slow_srun(program):
    """srun hands over signals and exit codes, and ends all ranks when one on another node dies or the watchdog speaks."""
    config = program.config({**RUN, "checkpoint.every_steps": 0})
    cluster = Cluster(program)
    launcher = cluster.root / "launcher"  # what takes -np
    launcher.write_text('#!/bin/bash\nexec srun -N2 -n "$2" "${@:3}"\n')
    launcher.chmod(0o755)
    program.mpiexec = str(launcher)
    # Ranks 0 and 1 are on one node, 2 on the other.
    for number, to, codes, words in ((signal.SIGUSR1, "srun", [75], "stopped after step"),
                                     (signal.SIGKILL, 2, [137], "Killed"),
                                     (signal.SIGSEGV, 2, [139], r"(?s)Signal: Segmentation fault.*srun: error: node2: task 2"),
                                     (signal.SIGSTOP, 1, [4, 137], r"rank 1 has not finished step \d+ after 5 s")):
        with Running(program, config, "parallel.watchdog_seconds=5", np=3) as run:
            run.wait_until_it_steps()
            pids = program.processes("SLURM_PROCID")
            os.kill(run.process.pid if to == "srun" else pids[to], number)
            result = run.wait()
        check(result.code in codes and re.search(words, result.err), f"{number.name} to {to}: {result}")
        check(not program.processes("SLURM_PROCID"), f"{number.name} to {to}: ranks are left")
        print(f"{number.name} to {to}: exit {result.code}", flush=True)


@case
def slow_survey(program):
    """jobs/survey.sbatch on two nodes: the job gets a signal to stop, and goes back into the queue and on; one is
    killed, and the next does what is missing; a failure affects one shot."""
    lines = [f"'source.1.position={8 + i % 7} {9 + i // 7} 20'" for i in range(20)]
    lines[5] += " source.1.wavelet=late.h5:/w"
    config = program.config({**RUN, "initial.u": None, "time.steps": 3000, "source.1.wavelet": "ricker", "source.1.f0": 40,
                             "receivers.points": "5 5 25, 20 20 25", "output.path": "line", "output.every": 0, "checkpoint.path": None,
                             "checkpoint.every_steps": None, "checkpoint.keep": None, "survey.shots": "shots.txt", "report.progress": "off"})
    (program.folder / "shots.txt").write_text("\n".join(lines) + "\n")
    cluster = Cluster(program)
    log, done = program.folder / "survey.log", lambda: len(list(program.folder.glob("line/*.receivers.h5")))

    def begin():
        return cluster.submit("-N2", "-n3", f"-o{log}", "jobs/survey.sbatch", config)

    job = begin()
    cluster.until(lambda: done() >= 2, "two shots", job)
    cluster.ask("scancel", "--signal=USR1", "--batch", job)
    cluster.until(lambda: cluster.state(job)[2] == "1", "second run", job)
    check("stopped: User defined signal 1" in log.read_text() and "back into the queue" in log.read_text(), log.read_text())
    before = done()
    cluster.until(lambda: done() > before, "another shot", job)
    cluster.ask("scancel", "--signal=KILL", job)
    cluster.until(lambda: not cluster.ask("squeue", "-h"), "end", job)
    job = begin()
    cluster.until(lambda: not cluster.ask("squeue", "-h"), "end", job)
    check("1 of 20 shots failed" in log.read_text() and "late.h5:/w: cannot open" in log.read_text(), log.read_text())
    rows = [row.split(",")[3] for row in (program.folder / "line/survey.csv").read_text().splitlines()[1:]]
    check(rows == ["failed" if i == 5 else "done" for i in range(20)], f"{rows}")
    for i in (0, 19):
        program.succeed("-q", config, "survey.shots=", lines[i].strip("'"), "output.path=out/alone")
        check(same_bits(program.field(3000, f"line/{i + 1:04d}"), program.field(3000, "out/alone")), f"shot {i + 1}: other bits")


@case
def slow_scaling(program):
    """jobs/scaling.sbatch: a report for every number of ranks up to the job's, across nodes."""
    cluster = Cluster(program)
    job = cluster.submit("-N2", "-n4", "-oout/scaling.log", "jobs/scaling.sbatch", "-e", "jacobi", "-g", "24x24x20",
                         "-s", "4", "device.backend=host")
    check(cluster.wait_ended(job)[0] == "COMPLETED", log_of(program, "scaling"))
    for ranks in (1, 2, 4):
        report = json.loads((program.folder / f"build/scaling.{job}/jacobi.weak.24x24x20.steps.auto.{ranks}.json").read_text())
        check(report["ranks"] == ranks and report["grid"] == [24, 24, 20 * ranks], str(report))
    check(len(re.findall(r"^jacobi weak .* %$", log_of(program, "scaling"), re.M)) == 3, log_of(program, "scaling"))


if __name__ == "__main__":
    isolate()
    main()
