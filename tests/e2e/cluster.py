"""A cluster of our own on this machine, for tests: Slurm on several nodes, each with a network address, a host name, processes,
a /tmp and a /dev/shm of its own. Needs root, iproute2 and what Debian calls slurmctld, slurmd, slurm-client,
slurm-wlm-basic-plugins and munge. Nothing that is configured on this machine is used or changed.
"""
import os
import re
import shutil
import subprocess
import sys
import time

from harness import PATIENCE, SOURCE, check, skip

PROGRAMS = ("unshare", "nsenter", "ip", "munged", "slurmctld", "slurmd", "srun", "sbatch", "squeue", "sinfo", "scancel", "scontrol")
SEPARATE = ("unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc")
NET = "192.0.2."  # kept for documents and tests by RFC 5737
SHARED = "/mnt"  # what all nodes see, as of a file server
CPUS = 4
# The script that calls isolate() runs as "$@" in namespaces of its own, and with it all that it starts. They end with it, however
# it ends: `unshare --kill-child` kills this bash, the first process of its namespace, and Linux then kills the others, and drops
# networks and mounts that nobody has any more. bash stays, to wait for what the daemons leave behind.
WORLD = f"""mount -t tmpfs run /run && mount -t tmpfs shared {SHARED} && ip link set lo up &&
ip link add switch type bridge && ip addr add {NET}254/24 dev switch && ip link set switch up || exit 99
export STENCIL_CLUSTER=world TMPDIR={SHARED} PATH=$PATH:/usr/sbin:/sbin
"$@"
exit $?"""
# A node: NAME NUMBER. It lives until its slurmd ends.
NODE = f"""mount -t tmpfs tmp /tmp && mount -t tmpfs shm /dev/shm && mount -t tmpfs run /run && hostname $0 &&
ip link set lo up && ip addr replace {NET}$1/24 dev port$1 && ip link set port$1 up || exit 99
unset STENCIL_CLUSTER
slurmd -D
exit $?"""
CONFIG = """ClusterName=test
SlurmctldHost=world({net}254)
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket
MpiDefault=pmix
SlurmUser=root
SlurmdUser=root
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool.%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
KillWait=15
SlurmdTimeout=30
ReturnToService=2
SlurmdParameters=config_overrides
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
ENDED = ("COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "CANCELLED")


def isolate():
    """Runs this script once more where the cluster can be made and vanishes with it. Ends it with exit 77 where that cannot be."""
    if "STENCIL_CLUSTER" in os.environ or sys.argv[1:] == ["--list"]:
        return
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    missing = [name for name in PROGRAMS if not shutil.which(name, path=path)]
    if os.geteuid() or missing:
        skip(f"needs root and Slurm: {', '.join(missing) or 'not root'}")
    command = [*SEPARATE, "--net", "bash", "-c", WORLD, "bash"]
    trial = subprocess.run([*command, "ip", "netns", "add", "trial"], capture_output=True, text=True, check=False)
    if trial.returncode:
        skip("no networks or file systems can be made here: " + trial.stderr.strip())
    os.execvp(command[0], [*command, sys.executable, *sys.argv])


class Node:
    """One node, named node1, node2 ...; it is on from the beginning."""

    def __init__(self, cluster, number):
        self.cluster, self.number, self.name = cluster, number, f"node{number}"
        port = f"port{number}"
        for words in (f"netns add {self.name}", f"link add {port} type veth peer name {port} netns {self.name}",
                      f"link set {port} master switch up"):
            subprocess.run(["ip", *words.split()], check=True)
        self.start()

    def start(self):
        self.process = self.cluster.spawn(self.name, ["nsenter", f"--net=/run/netns/{self.name}", *SEPARATE,
                                                      "bash", "-c", NODE, self.name, str(self.number)])

    def lose_power(self):
        """Off the network, so that no process says farewell, and gone."""
        subprocess.run(["ip", "link", "set", f"port{self.number}", "down"], check=True)
        self.process.kill()
        self.process.wait()

    def boot(self):
        subprocess.run(["ip", "link", "set", f"port{self.number}", "up"], check=True)
        self.start()


class Cluster:
    """Ends with the script. In the program's folder, which all nodes see, lie jobs/, config/ and the program, as `stencil`."""

    def __init__(self, program, nodes=2):
        self.program, self.root = program, program.root / "slurm"
        (self.root / "state").mkdir(parents=True)
        for folder in (self.root.parent, self.root):
            folder.chmod(0o755)  # munge wants to be reachable
        (self.root / "munge.key").write_bytes(os.urandom(1024))
        (self.root / "munge.key").chmod(0o600)
        for folder in ("jobs", "config"):
            shutil.copytree(SOURCE / folder, program.folder / folder)
        program.path = str(shutil.copy(program.path, program.folder / "stencil"))  # a node may not see the original
        self.names = [f"node{n}" for n in range(1, nodes + 1)]
        (self.root / "slurm.conf").write_text(CONFIG.format(net=NET, root=self.root, nodes="\n".join(
            f"NodeName={name} NodeAddr={NET}{n} CPUs={CPUS} RealMemory=500 State=UNKNOWN" for n, name in enumerate(self.names, 1))))
        (self.root / "hosts").write_text(f"127.0.0.1 localhost\n{NET}254 world\n" +
                                         "".join(f"{NET}{n} {name}\n" for n, name in enumerate(self.names, 1)))
        for command in (["mount", "--bind", self.root / "hosts", "/etc/hosts"], ["hostname", "world"]):
            subprocess.run(command, check=True)
        # Nothing that Open MPI asks of a single node; /tmp is each node's own.
        program.environment.update(SLURM_CONF=str(self.root / "slurm.conf"), STENCIL=program.path, TMPDIR="/tmp")
        munge = [f"--{name}={self.root}/munge.{end}" for name, end in
                 (("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed"))]
        self.spawn("munged", ["munged", "--foreground", "--force", *munge])
        self.until(lambda: (self.root / "munge.socket").exists(), "munge")
        self.spawn("slurmctld", ["slurmctld", "-D"])
        self.nodes = [Node(self, n) for n in range(1, len(self.names) + 1)]
        self.until(lambda: self.ask("sinfo", "-h", "-N", "-o", "%t").split() == ["idle"] * len(self.names), "nodes that are idle")

    def spawn(self, name, command):
        with open(self.root / f"{name}.out", "a") as out:
            return subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=self.program.environment)

    def ask(self, *command, env=None):
        done = self.program.finish(command, env=env)
        return done.out + done.err

    def until(self, happened, what, job=None):
        end = time.monotonic() + PATIENCE
        while not happened():
            if time.monotonic() > end:
                # The logs of jobs too: they say who has crashed. Of a rank it is srun's "task N: Segmentation fault", with a
                # backtrace by Open MPI; of srun or mpirun it is bash's "line N: PID Segmentation fault".
                for path in (*sorted(self.root.glob("*.out")), *sorted(self.program.folder.glob("out/*.log"))):
                    print(f"--- {path.name}\n{path.read_text(errors='replace')[-6000:]}", flush=True)
                raise AssertionError(f"no {what} within {PATIENCE} s: {self.ask('squeue')}"
                                     f"{self.ask('scontrol', 'show', 'job', job) if job else ''}")
            time.sleep(0.2)

    def submit(self, *words, env=None):
        """The number of a job."""
        said = self.ask("sbatch", *words, env=env)
        number = re.search(r"Submitted batch job (\d+)", said)
        check(number, said)
        return number.group(1)

    def show(self, job, *keys):
        """Fields of a job. A busy Slurm answers with an error, or without some: then it is asked again."""
        found = []

        def answered():
            said = self.ask("scontrol", "show", "job", job)
            found[:] = [re.search(rf"(?<!\S){key}=(\S+)", said) for key in keys]
            return all(found)

        self.until(answered, f"{', '.join(keys)} of job {job}", job)
        return tuple(field.group(1) for field in found)

    def state(self, job):
        """(state, exit code, restarts) of a job."""
        return self.show(job, "JobState", "ExitCode", "Restarts")

    def wait_ended(self, job):
        self.until(lambda: self.state(job)[0] in ENDED, "end", job)
        return self.state(job)
