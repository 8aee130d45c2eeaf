#!/usr/bin/env python3
"""Two nodes of a cluster on one machine: the daemons that Open MPI starts on its hosts get a host name, processes and a
/dev/shm of their own (unshare), so that ranks 0, 1 and 2, 3 share no memory and reach each other through TCP.

usage: nodes.py --list | nodes.py CASE STENCIL MPIEXEC
"""
import re
import signal
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import Hung, Running, case, check, h5py, main, np, read_field, same_bits, send, skip, wait_gone, write_field

# What Open MPI calls in place of ssh: HOST COMMAND... `size`: of /dev/shm on the first host.
AGENT = """#!/bin/bash
host=$1
shift
[ $host = nodeA ] && size={size} || size=64m
exec unshare -rumipf --mount-proc --kill-child \\
  bash -c 'hostname $0 && mount -t tmpfs -o size=$1 none /dev/shm && shift && exec sh -c "$*"' $host $size "$@"
"""
BY_SLOT, BY_NODE = ["--map-by", "slot"], ["--map-by", "node"]  # 0 1 | 2 3, and 0 2 | 1 3: neighbours are elsewhere
RUNS = {
    "jacobi": {"equation.type": "jacobi", "boundary.z": "periodic"},
    "wave": {"equation.type": "wave", "medium.velocity": "v.h5:/v", "boundary.all": "absorbing", "boundary.width": 5,
             "boundary.z_lo": "dirichlet", "source.1.position": "14 9 12.5", "source.1.wavelet": "ricker",
             "source.1.f0": 90,
             "receivers.points": "2 3 23.5, 14.25 9.5 11.75, 3 3 15.25, 20.5 8 35.5, 28 23 47, 5.5 5.5 0"},
}


def two_nodes(program, size="64m"):
    """Options of mpiexec that start ranks on two hosts."""
    if not program.may_mount():
        skip("no hosts can be simulated here: no file systems may be mounted")
    agent = program.root / "agent"
    agent.write_text(AGENT.format(size=size))
    agent.chmod(0o755)
    loopback = [option for kind in ("btl_tcp", "oob_tcp") for option in ("--mca", kind + "_if_include", "lo")]
    nodes = ["--mca", "plm", "rsh", "--mca", "plm_rsh_agent", str(agent), *loopback, "--host", "nodeA:2,nodeB:2"]
    try:
        names = program.finish([program.mpiexec, *nodes, "-np", "4", "hostname"], timeout=30).out.split()
    except Hung:
        names = ["none, for 30 s"]
    if sorted(names) != ["nodeA"] * 2 + ["nodeB"] * 2:
        skip(f"no hosts can be simulated here: mpiexec starts programs on {' '.join(names) or 'none'}")
    return nodes


def config_of(program, changes):
    values = 1500 + 700 * np.random.default_rng(3).random((48, 24, 29))
    write_field(program.folder / "v.h5", values.astype("f4"), "v")
    return program.config({"grid.nx": 29, "grid.ny": 24, "grid.nz": 48, "time.steps": 9, "output.every": 4,
                           "checkpoint.path": "out/c", "checkpoint.every_steps": 5,
                           "parallel.watchdog_seconds": 60, **changes})


def results(program):
    """Fields and traces; old files are removed first."""
    found = [read_field(path, program.path) for path in sorted((program.folder / "out").glob("u.*.hdf"))]
    traces = program.folder / "out/u.receivers.h5"
    if traces.exists():
        with h5py.File(traces, "r") as file:
            found.append(file["u"][...])
    program.remove("out/u.*")
    return found


def compare(program, nodes, expected, *args, ranks=4):
    out = program.succeed("-v", "run.ini", *args, np=ranks, launch=nodes, timeout=60).out
    hosts = re.findall(r"rank \d: (node[AB]), \d+ thread", out)
    check(sorted(hosts) == ["nodeA"] * 2 + ["nodeB"] * (ranks - 2) or "parallel.io=server" in args, f"ranks on {hosts}: {out}")
    found = results(program)
    check(len(found) == len(expected) and all(map(same_bits, found, expected)), f"{args}: other results")
    return out


def compare_all(program, ways, names=tuple(RUNS)):
    """`ways`: of running on two nodes, each a list of settings; names of RUNS."""
    nodes = two_nodes(program)
    for name, changes in [(name, RUNS[name]) for name in names]:
        program.fresh()
        config_of(program, changes)
        program.succeed("run.ini", "device.kernel=simd", np=1)
        expected = results(program)
        check(len(expected) == 4 + ("receivers.points" in changes), f"{len(expected)} results")
        for mapping in (BY_SLOT, BY_NODE):
            for way in ways:
                out = compare(program, nodes + mapping, expected, *way)
                check("parallel.io=auto" not in way or "io collective" in out, f"not io collective, though all ranks see the folders: {out}")
            compare(program, nodes + mapping, expected[2:], "--restart", "out/c.00000005.h5", *ways[-1])
        print(f"{name}: ranks side by side and alternating on two nodes: the same results")


@case
def bits(program):
    """Ranks on two nodes: every transport and way of input and output gives the bits of one rank; so does a restart."""
    compare_all(program, [["parallel.transport=sendrecv", "device.kernel=simd", "parallel.io=gather"],
                          ["parallel.transport=shared", "device.kernel=simd", "parallel.io=server"],
                          ["parallel.transport=auto", "device.kernel=simd_cached", "parallel.io=gather"],
                          ["parallel.transport=chunked", "device.kernel=simd", "parallel.io=auto"]])


@case
def cuda(program):
    """The same on GPUs: on a node neighbours exchange through shared memory or straight, between nodes through MPI."""
    program.skip_without_cuda()
    nodes = two_nodes(program)
    program.config({})
    # On some machines neither MPI's messages nor the GPU's driver get across such borders. `bits` covers the host.
    for ranks, backend in ((4, "host"), (1, "cuda")):
        try:
            program.succeed("run.ini", f"device.backend={backend}", np=ranks, launch=nodes, timeout=10)
        except Hung:
            skip(f"{ranks} ranks with device.backend={backend} hang for 10 s where hosts are simulated")
    compare_all(program, [["device.backend=cuda", f"parallel.transport={transport}"]
                          for transport in ("shared", "ipc", "auto")], ["wave"])


@case
def small_shm(program):
    """/dev/shm is small on one of the nodes: `shared` is refused where it copies planes, and `auto` passes it over.
    Ranks 0 and 2 there are neighbours, with rank 1 elsewhere."""
    nodes = two_nodes(program, size="9m") + BY_NODE
    program.config({"grid.nx": 512, "grid.ny": 512, "grid.nz": 24, "time.steps": 6, "boundary.z": "periodic"})
    program.succeed("run.ini", "device.kernel=simd", np=1)
    expected = results(program)
    said = r"\d+\.\d+ MiB of memory shared by the ranks are needed, but /dev/shm or `ulimit -f` has room for only [0-9]\."
    result = program.run("run.ini", "parallel.transport=shared", np=3, launch=nodes)
    check(result.code == 1 and len(result.errors) == 1 and re.search(said, result.err), str(result))
    out = compare(program, nodes, expected, ranks=3)
    check(re.search("shared: " + said, out), out)


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def end_of(program, transport, signal_number, victims):
    """The output of a run whose processes, or some of them, get the signal while it steps; all processes must end."""
    program.fresh()
    nodes = two_nodes(program)
    config = program.config({"grid.nx": 64, "grid.ny": 64, "grid.nz": 96, "time.steps": 10**7,
                             "parallel.watchdog_seconds": 3})
    with Running(program, config, f"parallel.transport={transport}", np=4, launch=nodes) as run:
        run.wait_until_it_steps()
        ranks = program.processes("OMPI_COMM_WORLD_RANK")
        check(len(ranks) == 4, f"ranks {ranks}")
        for pid in victims(ranks):
            send(pid, signal_number)
        result = run.wait()
        wait_gone(ranks, transport)
        check(result.code != 0, f"{transport}: exit {result.code}")
        print(f"{transport}, {signal_number.name}: all gone")
        return result


@case
def death(program):
    """A rank of the other node dies, and the whole node, its daemon first: all processes end."""
    end_of(program, "shared", signal.SIGKILL, lambda ranks: [ranks[3]])
    end_of(program, "sendrecv", signal.SIGKILL, lambda ranks: [parent(ranks[2]), ranks[2], ranks[3]])


@case
def watchdog(program):
    """A rank of the other node stands still: the watchdog names it, exit 4."""
    result = end_of(program, "shared", signal.SIGSTOP, lambda ranks: [ranks[2]])
    check(result.code == 4 and re.search(r"error: rank 2 has not finished step \d+ after 3 s", result.err), str(result))


if __name__ == "__main__":
    main()
