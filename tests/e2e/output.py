#!/usr/bin/env python3
"""Saving beside the steps, in every mode of I/O: the same files, whatever happens.
output.py CASE STENCIL MPIEXEC   |   output.py --list
"""
import json
import random
import re
import shutil
import signal
import sys
import time

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import Running, case, check, h5py, main, np, read_field, same_bits, send, wait_gone
from run_files import ORIGIN, SHOT, WAVE, check_same, checkpoints, fields_of, model, run_mounted, series_of, temporaries, traces_of

# All that a run can read and write: fields, tables, traces, a histogram, checkpoints with layers.
RICH = {**WAVE, **SHOT, "grid.nx": 20, "grid.ny": 14, "grid.nz": 26, "time.steps": 20, "medium.velocity": "in.h5:/v",
        "initial.u": "in.h5:/alpha", "boundary.all": "absorbing", "boundary.z_lo": "dirichlet", "boundary.width": 5,
        "receivers.positions": "in.h5:/positions", "output.every": 3, "report.histogram": 30,
        "checkpoint.path": "out/c", "checkpoint.every_steps": 4}
POSITIONS = [[3, 4, 3], [20.2, 11, 7], [33, 30, 35], [1, 1, 36.5]]
OWN_WAY = {"config", "command", "creation_date", "mpi_ranks", "transport"}  # attributes that say how the run was made


def rich_input(program):
    model(program)
    with h5py.File(program.folder / "in.h5", "a") as file:
        file["positions"], file["far"] = np.array(POSITIONS), np.array([*POSITIONS[:3], [3, 4, -0.01]])


def contents(path):
    """Every dataset and attribute of a file but those that differ from run to run."""
    found = {}

    def visit(name, item):
        for key, value in item.attrs.items():
            if key in ("DIMENSION_LIST", "REFERENCE_LIST"):  # references, which have no bytes of their own
                value = str([[(file[p].name if isinstance(p, h5py.Reference) else int(p)) for p in part] for part in value])
            if name or key not in OWN_WAY:
                found[f"{name}@{key}"] = np.asarray(value).tobytes() if not isinstance(value, str) else value
        if isinstance(item, h5py.Dataset):
            values = item[...].tolist() if item.dtype == object else item[...].tobytes()  # texts would be pointers
            found[name] = (item.shape, str(item.dtype), item.compression, values)

    with h5py.File(path, "r") as file:
        visit("", file)
        file.visititems(visit)
    return found


def compare(program, path, reference, about, suffixes=("hdf", "receivers.h5", "h5")):
    """The files under `path` hold what those under `reference` hold."""
    folder = program.folder / "out"
    names = [sorted(p.name.removeprefix(base) for suffix in suffixes for p in folder.glob(f"{base}.*{suffix}"))
             for base in (path, reference)]
    check(names[0] == names[1] and len(names[1]) > 0, f"{about}: files {names[0]}, not {names[1]}")
    for name in names[0]:
        a, b = contents(folder / (path + name)), contents(folder / (reference + name))
        check(a.keys() == b.keys(), f"{about}: {name} holds {sorted(a.keys() ^ b.keys())} or not")
        for key, value in b.items():
            check(a[key] == value, f"{about}: {name}: {key} differs")
    if (folder / f"{reference}.xdmf").exists():
        check(series_of(program, f"out/{path}") == series_of(program, f"out/{reference}"), f"{about}: another series")
    return len(names[0])


def modes(program):
    """Ways to save: number of ranks, options."""
    ways = [(np_, [f"parallel.io={io}"]) for np_, io in ((4, "server"), (2, "server"), (3, "gather"), (1, "gather"),
                                                         (5, "server"))]
    if "parallel)" in program.succeed("--version").out:
        ways += [(3, ["parallel.io=collective"]), (1, ["parallel.io=collective"])]
    return ways


@case
def same_files(program):
    """Every mode, on any number of ranks, writes the same data and attributes, with compression and without."""
    for compress in (0, 3):
        program.fresh()
        rich_input(program)
        config = program.config({**RICH, "output.compress": compress})
        program.succeed("-q", config, "output.path=out/ref", "checkpoint.path=out/cref", "parallel.io=gather")
        values = program.field(20, "out/ref")
        check(len(np.unique(values)) > 1000, "the reference is next to constant")
        for ranks, options in modes(program):
            about = f"compress {compress}, {ranks} ranks {options}"
            result = program.succeed(config, *options, np=ranks)
            files = compare(program, "u", "ref", about) + compare(program, "c", "cref", about)
            check(files >= 10, f"{about}: only {files} files")
            check(sorted(int(s) for s in re.findall(r"^checkpoint out/c\.(\d+)\.h5", result.out, re.M)) == [4, 8, 12, 16, 20],
                  f"{about}: checkpoints in the log: {result}")
            with h5py.File(program.folder / "out/u.00000020.hdf", "r") as file:
                check(file.attrs["mpi_ranks"] == ranks, f"{about}: mpi_ranks {file.attrs['mpi_ranks']}")
            program.remove("out/u.*", "out/c.*")
    print(f"{len(modes(program))} ways, compressed or not: the same files")


@case
def only_the_server(program):
    """The computing ranks never touch a file: they run in a folder of their own, which stays empty."""
    rich_input(program)
    config = program.config(RICH)
    program.succeed("-q", config, "output.path=out/ref", "checkpoint.path=out/cref")
    away = program.root / "away"
    away.mkdir()
    shutil.copy(program.folder / config, away)

    def apart(*args, code=0):
        rest = [program.path, *args, config, "parallel.io=server"]
        result = program.finish([program.mpiexec, "-np", "3", "-wdir", away, *rest, ":", "-np", "1", "-wdir", program.folder, *rest])
        check(result.code == code, f"{args}: expected exit {code}, got {result}")
        check([p.name for p in away.rglob("*")] == [config], f"{args}: a computing rank wrote {list(away.rglob('*'))}")
        return result

    check("everything is in place" in apart("--dry-run").out, "dry run")
    apart()
    compare(program, "u", "ref", "the server alone")
    compare(program, "c", "cref", "the server alone")
    (program.folder / "out/c.00000020.h5").write_bytes(b"damaged")
    out = apart("--restart", "auto").out
    check("step 16\n" in out and out.count("passed over: out/c.") == 1, f"not from step 16, or silently: {out}")
    compare(program, "u", "ref", "after a restart")


# Ranks 1 and 2 in a folder of their own: another one (VIEW empty), or the same one through another mount.
VIEWS = """if [ "$VIEW" ]; then mount --bind "$PWD" "$AWAY" || exit 99; fi
exec "$@" """


@case
def views(program):
    """A rank that sees another folder of the same name is detected, and files pass through the first rank. All ranks
    use a folder that is mounted twice."""
    rich_input(program)
    config = program.config(RICH)
    program.succeed("-q", config, "output.path=out/ref", "checkpoint.path=out/cref")
    away = program.root / "away"
    (away / "out").mkdir(parents=True)

    def apart(*args, view="", code=0):
        rest = [program.path, *[a for a in args if "=" not in a], config, *[a for a in args if "=" in a]]
        command = [program.mpiexec, "-np", "1", "-wdir", program.folder, *rest, ":", "-np", "2", "-wdir", away, *rest]
        if view:
            command = ["unshare", "-rm", "bash", "-c", VIEWS, "bash", *command]
        result = program.finish(command, env={"VIEW": view, "AWAY": str(away)})
        check(result.code == code, f"{view or 'apart'}, {args}: expected exit {code}, got {result}")
        return result

    def agree(about):
        compare(program, "u", "ref", about)
        compare(program, "c", "cref", about)
        program.remove("out/[uc].*")

    check("io gather" in apart().out, "another folder of the same name was taken for the same")
    check("io gather" in apart("output.path=new/u", "checkpoint.path=new/c").out, "a folder that is to be made was taken for the same")
    check(not list((away / "out").iterdir()), f"left in the other folder: {list((away / 'out').iterdir())}")
    apart("--restart", "out/c.00000016.h5")
    agree("folders apart")
    refused = apart("parallel.io=collective", code=2)
    check(refused.err.count("error:") == 1 and "No such file" in refused.err, f"collective, folders apart: {refused}")
    program.remove("out/[uc].*")
    if program.may_mount():
        check("io collective" in apart(view="mounted twice").out, "the same folder was not found out")
        out = apart("checkpoint.path=made/c", "output.path=out/v", view="mounted twice").out
        check("io collective" in out, "the same folder, which is to be made, was not found out")
        compare(program, "v", "ref", "a folder that the run has made")
        agree("a folder mounted twice")
    else:
        print("no file systems may be mounted here: two mounts of a folder are not checked")


ERRORS = (
    (2, ["nofile.h5"], ["initial.u=nofile.h5:/u"]), (2, ["in.h5", "/w"], ["medium.velocity=in.h5:/w"]),
    (2, ["in.h5:/s", "(nz, ny, nx)"], ["medium.velocity=in.h5:/s"]), (2, ["no/such"], ["output.path=no/such/u"]),
    (2, ["no/such"], ["checkpoint.path=no/such/c"]), (2, ["in.h5:/v"], ["receivers.positions=in.h5:/v"]),
    (2, ["in.h5:/far: row 3: (x, y, z) = (3, 4, -0.01) m is outside the grid"], ["receivers.positions=in.h5:/far"]),
    (2, ["in.h5:/alpha"], ["source.2.wavelet=in.h5:/alpha"]),
    (2, ["absent.h5"], ["--restart", "absent.h5"]), (1, ["[device] kernel"], ["device.kernel=none"]),
    (2, ["in.h5"], ["--restart", "in.h5"]), (3, ["[time] dt"], ["time.dt=1"]))


@case
def errors(program):
    """Errors that the server finds, and errors that only a computing rank can find: one line, the right code, no hang."""
    rich_input(program)
    config = program.config(RICH)
    server = ["-q", config, "parallel.io=server"]
    program.fail(1, ["[parallel] io", "2 ranks"], *server)
    program.fail(1, ["[parallel] io", "2 ranks"], *server, np=1)
    for ranks in (2, 4):
        for code, words, changes in ERRORS if ranks == 4 else ERRORS[::4]:
            program.fail(code, words, *server, *changes, np=ranks)
            if ranks == 4 and changes != ["--restart", "absent.h5"]:
                program.fail(code, words, "--dry-run", *server, *changes, np=ranks)
    program.fail(1, ["at most 3", "4 ranks"], *server, "grid.nz=15", "medium.velocity=1500", "initial.u=random", np=5)
    program.succeed("-q", config, "parallel.io=server", "--benchmark", "5", np=3)
    unstable = ["time.dt=0.004", "time.allow_unstable=on", "report.check_every=1", "time.steps=500", "output.every=0"]
    result = program.run(*server, *unstable, np=3)
    check(result.code == 3 and len(result.errors) == 1 and "not finite" in result.err, f"an overflow: {result}")


# --- files of earlier runs, and reduced output
# ---------------------------------------------------------------------------

ASIDE = re.compile(r"^(a run would move|moved) aside (\d+) files? of an earlier run to (\S+)\.\*: ", re.M)
OTHERS = ("u.b.00000009.hdf", "u2.00000009.hdf", "u.0000009.hdf", "u.000000009.hdf", "u.00000009.hdf.bak", "u.receivers.h5.bak",
          "uu.receivers.h5", "u.x.xdmf", "u.00000009.h5")  # names that no run under out/u gives
FEWER = ["time.steps=12", "output.every=6", "receivers.positions="]  # saves 0, 6, 12


def under(program, path="out/u"):
    """All files PATH.*, by what follows PATH."""
    base = program.folder / path
    return {p.name.removeprefix(base.name): p.read_bytes() for p in base.parent.iterdir() if p.name.startswith(base.name)}


def field_names(*steps, before=""):
    return {f"{before}.{step:08d}.hdf" for step in steps}


@case
def leftovers(program):
    """Files of an earlier run that the new one does not write are moved aside together; others are not touched."""
    lists = {".xdmf", ".hdf.series"}
    for ranks, io in ((0, "auto"), (3, "server"), (2, "gather")):
        program.fresh()
        rich_input(program)
        config, options = program.config(RICH), [f"parallel.io={io}"]
        program.succeed("-q", config, *options, np=ranks)
        for name in (*OTHERS, "u.gradient.h5"):
            (program.folder / "out" / name).write_text(name)
        before, gone = under(program), field_names(3, 9, 15, 18, 20) | {".receivers.h5", ".gradient.h5"}
        for args in (["-n"], ["-b", 3]):
            printed = ASIDE.findall(program.succeed(*args, config, *FEWER, *options, np=ranks).out)
            check(printed == ([("a run would move", "7", "out/u.old1")] if args == ["-n"] else []), f"{io} {args}: {printed}")
            check(under(program) == before, f"{io}: {args} has moved files: {sorted(under(program))}")
        printed = ASIDE.findall(program.succeed(config, *FEWER, *options, np=ranks).out)
        after = under(program)
        check(printed == [("moved", "7", "out/u.old1")], f"{io}: said {printed}")
        check(after.keys() == before.keys() - gone | {".old1" + name for name in gone}, f"{io}: {sorted(after)}")
        kept = {name for name in before if name in after and name not in lists | field_names(0, 6, 12)}
        check(len(kept) == len(OTHERS), f"{io}: {kept}")
        for name in kept:
            check(after[name] == before[name], f"{io}: {name} has changed")
        for name in gone:
            check(after[".old1" + name] == before[name], f"{io}: another {name} was moved aside")
        check([step for step, _ in series_of(program, "out/u")] == [0, 6, 12], f"{io}: {series_of(program, 'out/u')}")
        check(not ASIDE.search(program.succeed(config, *FEWER, *options, np=ranks).out), f"{io}: moved the same run's files")
        printed = ASIDE.findall(program.succeed(config, *options, "output.final=off", "output.every=0", np=ranks).out)
        after = under(program)
        check(printed == [("moved", "5", "out/u.old2")], f"{io}: traces only: said {printed}")
        check(lists | field_names(0, 6, 12) == {n.removeprefix(".old2") for n in after if ".old2" in n}, f"{io}: {sorted(after)}")
        check(not after.keys() & (lists | field_names(0, 6, 12)), f"{io}: {sorted(after)}")
        for ending in lists:
            named = re.findall(r"u\S*?\.hdf", after[".old2" + ending].decode())
            check(named == [f"u.old2.{step:08d}.hdf" for step in (0, 6, 12)], f"{io}: lists of moved fields name {named}")
        out = program.succeed(config, *options, "output.final=off", "output.every=0", np=ranks).out
        check(not ASIDE.search(out) and under(program).keys() == after.keys(), f"{io}: the same run again: {sorted(under(program))}")
        replace(program, config, gone, io, ranks)


def replace(program, config, gone, io, ranks):
    """[output] replace deletes instead, and nothing before the new files are there."""
    keys = [*FEWER, f"parallel.io={io}", "output.replace=on", "checkpoint.every_steps=0"]
    program.succeed("-q", config, f"parallel.io={io}", np=ranks)
    (program.folder / "out/u.gradient.h5").write_text("gradient")
    before = under(program)
    printed = program.succeed("-n", config, *keys, np=ranks).out
    check("a run would delete 7 files of an earlier run at its end: " in printed and under(program) == before, f"{io}: {printed}")
    stopped = program.run("-q", config, *keys, "time.max_seconds=0.001", np=ranks)
    check(stopped.code == 75 and under(program).keys() == before.keys(), f"{io}: {stopped} {sorted(under(program))}")
    printed = program.succeed(config, *keys, np=ranks).out
    after = under(program)
    check("deleted 7 files of an earlier run: this one does not write them\n" in printed, f"{io}: {printed}")
    check(after.keys() == before.keys() - gone and [step for step, _ in series_of(program, "out/u")] == [0, 6, 12], f"{io}: {sorted(after)}")
    check(all(after[name] == before[name] for name in after if "old" in name or "u" + name in OTHERS), f"{io}: another file has changed")


@case
def leftovers_of_runs(program):
    """A run that goes on keeps what its earlier runs saved; a run keeps what it reads. A list names no field of an earlier run. A
    file that cannot be moved is exit 2."""
    rich_input(program)
    config = program.config({**RICH, "checkpoint.keep": 9})
    program.succeed("-q", config, "time.steps=16")  # 0, 3 .. 15, 16
    printed = ASIDE.findall(program.succeed("-r", "out/c.00000008.h5", config, "output.every=4", "output.final=off", "time.steps=18").out)
    check(printed == [("moved", "2", "out/u.old1")], f"a restart said {printed}")  # 9, 15
    check([step for step, _ in series_of(program, "out/u")] == [0, 3, 6, 12, 16], f"{series_of(program, 'out/u')}")
    check(field_names(0, 3, 6, 12, 16) | field_names(9, 15, before=".old1")
          == {name for name in under(program) if re.fullmatch(r"(\.old\d)?\.\d{8}\.hdf", name)}, f"{sorted(under(program))}")
    program.succeed("-q", config, "output.every=0", "initial.u=out/u.00000003.hdf:/u", "output.path=./out/u")
    check(field_names(3, 20) == {name for name in under(program) if re.fullmatch(r"\.\d{8}\.hdf", name)}, f"{sorted(under(program))}")
    traces = under(program)[".receivers.h5"]
    with Running(program, config, "time.steps=100000000", "receivers.every=1000000", "output.every=0", "checkpoint.every_steps=0") as run:
        run.wait_until_it_steps()
        run.process.kill()
        run.process.wait()
    left = under(program)
    check(series_of(program, "out/u") == [], f"a killed run lists {series_of(program, 'out/u')}")
    check(".receivers.h5" not in left and traces in left.values(), f"a killed run has the traces of another: {sorted(left)}")
    if not program.may_mount():
        print("no file systems may be mounted here: a file that cannot be moved is not checked")
        return
    (program.folder / "out/u.00000007.hdf").write_text("busy")
    busy = 'mount --bind out/u.00000007.hdf out/u.00000007.hdf || exit 99; exec "$@"'
    result = program.run_with_mounts(busy, config)
    check(result.code == 2 and len(result.errors) == 1 and "out/u.00000007.hdf: cannot write" in result.err, f"busy: {result}")


@case
def traces_only(program):
    """final = off saves the last field only where it is a multiple of every; a run that blows up is still exit 3."""
    rich_input(program)
    config, off = program.config({**RICH, "checkpoint.every_steps": 0}), "output.final=off"
    program.succeed("-q", config, "output.path=out/ref")
    for ranks, io in ((0, "auto"), (3, "server"), (2, "gather")):
        about, options = f"{io}, {ranks} ranks", [f"parallel.io={io}", off]
        result = program.succeed(config, *options, "output.every=0", np=ranks)
        check(under(program).keys() == {".receivers.h5"}, f"{about}: {sorted(under(program))}")
        check("\nwritten: out/u.receivers.h5\n" in result.out and "nothing is saved" not in result.out, f"{about}: {result}")
        check(all(same_bits(a, b) for a, b in zip(traces_of(program, "out/u").values(), traces_of(program, "out/ref").values())),
              f"{about}: other traces")
        check("output: 0 files" in program.succeed("-n", config, *options, "output.every=0", np=ranks).out, f"{about}: dry run")
        # Complete, but for nothing: the checkpoint is of the last step.
        program.succeed("-q", config, *options, "output.every=0", "checkpoint.every_steps=10", np=ranks)
        (program.folder / "out/u.receivers.h5").unlink()
        result = program.succeed("-r", "auto", config, *options, "output.every=0", np=ranks)
        check("nothing is left to do" in result.out and under(program).keys() == {".receivers.h5"}, f"{about}: {result}")
        program.succeed("-q", config, *options, np=ranks)
        check(sorted(fields_of(program, "out/u")) == [*range(0, 20, 3)], f"{about}: {sorted(under(program))}")
        check([step for step, _ in series_of(program, "out/u")] == [*range(0, 20, 3)], f"{about}: {series_of(program, 'out/u')}")
        program.succeed("-q", config, *options, "output.every=5", "output.path=out/v", np=ranks)
        check(sorted(fields_of(program, "out/v")) == [0, 5, 10, 15, 20], f"{about}: {sorted(under(program, 'out/v'))}")
        unstable = ["time.dt=0.004", "time.allow_unstable=on", "report.check_every=0", "time.steps=500", "output.every=0"]
        result = program.run("-q", config, *options, *unstable, "output.path=out/w", np=ranks)
        check(result.code == 3 and len(result.errors) == 1 and "step 500:" in result.err, f"{about}: an overflow: {result}")
        check(not under(program, "out/w"), f"{about}: left {sorted(under(program, 'out/w'))}")
        program.remove("out/[uvc].*")
    nothing = [off, "output.every=0", "receivers.positions="]
    result = program.succeed(config, *nothing, "output.path=out/w", "--report", "r.json")
    check("warning: nothing is saved" in result.out and "\nwritten: r.json\n" in result.out, f"{result}")
    found = json.loads((program.folder / "r.json").read_text())["statistics"]
    check(found["step"] == 20 and np.isclose(found["max"], np.max(program.field(20, "out/ref"))), f"the report says {found}")
    check("nothing is saved" not in program.succeed("-b", 3, config, *nothing).out, "a benchmark warns")


@case
def folders(program):
    """The folders of what a run writes are made where their parents are there; a dry run says so, and makes none."""
    folder = program.folder
    keys = ["output.path=new/u", "checkpoint.path=out/c/x", "checkpoint.every_steps=2", "report.file=./r//r.json"]
    made = [folder / name for name in ("new", "out/c", "r")]
    for ranks, io in ((0, "auto"), (3, "collective"), (3, "server")):
        program.fresh()
        config, options = program.config({"parallel.io": io}), {"np": ranks}
        out = program.succeed("-n", "--measure", config, *keys, **options).out
        check(len(re.findall(r"^a run would make the folder of \[(?:output|checkpoint|report)\] \w+ = ", out, re.M)) == 3, f"{io}: {out}")
        printed = program.succeed("-n", config, "output.path=new/u", "report.file=new/r.json", **options).out
        check(printed.count("a run would make the folder") == 1, f"{io}: {printed}")
        check(not any(path.exists() for path in made), f"{io}: a dry run has made {[*folder.iterdir()]}")
        program.fail(2, ["absent.h5"], config, *keys, "initial.u=absent.h5:/u", "report.file=", **options)
        program.succeed("-b", 3, config, *keys, **options)
        check([path.exists() for path in made] == [False, False, True], f"{io}: a benchmark has made {[*folder.iterdir()]}")
        out = program.succeed(config, *keys, **options).out
        check(re.findall(r"^made the folder of \[(\w+)\]", out, re.M) == ["output", "checkpoint"], f"{io}: {out}")
        check(program.files() == {"run.ini", "new/u.00000003.hdf", "new/u.xdmf", "new/u.hdf.series", "out/c/x.00000002.h5", "r/r.json"},
              f"{io}: {program.files()}")
        for key in ("output.path", "checkpoint.path", "report.file"):
            program.fail(2, [f"[{key.split('.')[0]}] {key.split('.')[1]} = no/such/x", "'no'"], config, f"{key}=no/such/x", **options)
    for args in ([], ["-n"]):
        for path in ("no/such/x", "run.ini/no/x", "no/", "no/.."):
            program.fail(2, [f"[output] path = {path}: "], *args, config, f"output.path={path}", "parallel.io=auto")
    check(not (folder / "no").exists(), "a refused run has made a folder")


# Two functions that the program and its libraries call, in place of their own.
LESS = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef ONE_THREAD
int MPI_Query_thread(int *provided) { *provided = 1; return 0; }
#else
FILE *fopen(const char *path, const char *mode) {
  static char text[] = "MemAvailable:   60000 kB\\n";
  if (strcmp(path, "/proc/meminfo") == 0) return fmemopen(text, strlen(text), "r");
  return ((FILE *(*)(const char *, const char *))dlsym(RTLD_NEXT, "fopen"))(path, mode);
}
#endif
"""


@case
def less(program):
    """With an MPI for one thread at a time, and with too little memory for copies: the same files, and the log says why
    the steps wait."""
    rich_input(program)
    config = program.config({**RICH, "grid.nx": 40, "grid.ny": 40, "grid.nz": 60, "medium.velocity": 2000, "initial.u": "random"})
    program.succeed("-q", config, "output.path=out/ref", "checkpoint.path=out/cref")
    for what, words in (("ONE_THREAD", "one thread at a time"), ("LITTLE_MEMORY", "too little memory")):
        environment = program.preload(what, LESS, f"-D{what}")
        for ranks, io in ((0, "gather"), (3, "auto"), (4, "server")):
            program.remove("out/c.*")
            result = program.succeed("-v", config, f"parallel.io={io}", np=ranks, env=environment)
            check(result.out.count(words) == 1, f"{what}, {io}: expected to hear of it once: {result}")
            compare(program, "u", "ref", f"{what}, {io}")
            compare(program, "c", "cref", f"{what}, {io}")
        check(words not in program.succeed("-v", config).out, f"{words} without reason")


# --- the ends of traces ---------------------------------------------------------------------------------------------


@case
def trace_ends(program):
    """A tone that lasts to the end, dispersion removed: the last samples are those of a longer run, which may go on from there."""
    dt, steps = 2e-3, 240
    tone = np.sin(2 * np.pi * 30 * dt * np.arange(2 * steps)) * np.clip(np.arange(2 * steps) / 100, 0, 1)
    with h5py.File(program.folder / "in.h5", "w") as file:
        file["long"], file["short"] = tone, tone[:steps]
    keys = {"grid.nx": 1, "grid.ny": 1, "grid.nz": 400, "grid.dz": 5, "time.steps": steps, "time.dt": dt, "equation.type": "wave", "initial.u": "zero",
            "boundary.all": "absorbing", "source.1.position": "0 0 900", "source.1.wavelet": "in.h5:/long",
            "receivers.line": "0 0 1000 0 0 1300 5", "output.path": "out/u", "output.final": "off", "checkpoint.every_steps": 3 * steps // 4}
    config = program.config(keys)

    def traces(*options, ranks=0):
        program.succeed("-q", config, *options, np=ranks)
        with h5py.File(program.folder / "out/u.receivers.h5") as file:
            return file["u"][...]

    for every in 1, 3, 4:
        option = f"receivers.every={every}"
        u, whole = traces(option), traces(option, f"time.steps={2 * steps}", "checkpoint.every_steps=0")
        rows, off = len(u), abs(u - whole[:len(u)]).max() / abs(whole).max()
        check(rows == steps // every + 1 and off < (1e-3 if every < 4 else 1e-2), f"every {every}: {rows} rows, {off} off")
        program.remove("out/*")
        traces(option, ranks=2)
        u = traces("-r", "auto", option, f"time.steps={2 * steps}")
        check(same_bits(u, whole), f"every {every}: other bits where a run goes on from the end of another one")
    off = abs(traces("source.1.wavelet=in.h5:/short") - traces()).max(0) / abs(whole).max()
    check(off.max() < 1e-4, f"a signal as long as the run: {off} off, 100 m and more away")
    printed = program.succeed(config, "source.1.wavelet=in.h5:/short", "maps.quantities=max").out
    check("in.h5:/short is cut at" in printed and "give it values for 2" in printed, f"{printed}")
    check("is cut at" not in program.succeed(config, "maps.quantities=max").out, "a signal that goes on is warned of")
    with h5py.File(program.folder / "in.h5", "a") as file:
        file["long"][...] *= -1
    printed = program.run("-r", "auto", config, "time.steps=300")
    check(printed.code == 2 and "[source] wavelets" in printed.err, f"a run goes on with another signal: {printed}")
    with h5py.File(program.folder / "in.h5", "a") as file:
        file["long"][...] *= -1
    kept = traces("time.dispersion=kept")
    off = abs(kept - traces()).max() / abs(whole).max()
    check(off > 0.02, f"removing dispersion changes {off} only")


# --- maps -----------------------------------------------------------------------------------------------------------

MAPS = {**RICH, "maps.quantities": "max min rms", "maps.dft": "90 33.3", "output.every": 1, "report.histogram": None,
        "checkpoint.every_steps": 7}
HEAT = {**{key: None for key in RICH if key.startswith(("source", "receivers", "medium"))}, "equation.type": "heat",
        "boundary.all": "neumann", "boundary.z_lo": None, "boundary.width": None, "maps.dft": "0.5 0.2"}


def check_maps(program, path, about, steps, removed):
    """PATH.maps.hdf equals the maps of the fields that out/u saved of these steps. With dispersion removed a frequency
    has other times."""
    fields = np.array([program.field(step) for step in steps])
    exact = fields.astype(float)
    with h5py.File(program.folder / f"{path}.maps.hdf", "r") as file:
        found, dt, frequencies = {name: file[name][...] for name in file if name != "VTKHDF"}, float(file.attrs["dt"]), file["frequency"][...]
        check(file["max"].id == file["VTKHDF/PointData/max"].id, f"{about}: /max is not VTK's")
        check([d[0].name for d in file["dft"].dims] == ["/frequency", "/z", "/y", "/x", "/part"], f"{about}: axes of /dft")
        check((file["max"].attrs["units"], file["dft"].attrs["units"]) == ("1", "s"), f"{about}: units")
        printed = re.search("^dft = (.*)", file.attrs["config"], re.M)[1]
        window = [file.attrs["counted_" + name] for name in ("steps", "from", "until")]
        check(np.allclose(window, [len(steps), dt * steps[0], dt * (2 * steps[-1] - steps[-2])], 1e-12), f"{about}: counted {window}")
        check([float(f) for f in printed.split()] == frequencies.tolist(), f"{about}: the configuration says dft = {printed}")
    check(np.array_equal(found["max"], fields.max(0)) and np.array_equal(found["min"], fields.min(0)), f"{about}: another max or min")
    off = abs(found["rms"] - np.sqrt((exact**2).mean(0))).max() / found["rms"].max()
    check(off < 1e-7 and np.ptp(found["rms"]) > 0, f"{about}: rms is {off} off")
    for f, pair in zip(frequencies, found["dft"]):
        turn, part = (2 * np.arcsin(np.pi * f * dt), np.sqrt(1 - (np.pi * f * dt)**2)) if removed else (2 * np.pi * f * dt, 1)
        apart, own = dt * (steps[1] - steps[0]) / part, np.array(steps)
        if removed and steps[0]:
            own = np.arange(0, 21, steps[1] - steps[0])
            own = own[(own >= steps.start * part) & (own < steps.stop * part)]
            check(part > 0.9 or own.tolist() != list(steps), f"{about}: the times of {f} Hz are those of the steps")
        expected = np.tensordot(np.exp(-1j * turn * own), np.array([program.field(step) for step in own], float), 1) * apart
        off = abs(pair[..., 0] + 1j * pair[..., 1] - expected).max() / (abs(exact).sum(0).max() * apart)
        check(off < 4e-7 and np.ptp(abs(expected)) > 0, f"{about}: {f} Hz is {off} off")
    return dt


@case
def maps(program):
    """Maps are what saving every step gives, in a window too: the same bytes in every mode and after restarts."""
    rich_input(program)
    with h5py.File(program.folder / "in.h5", "a") as file:
        file["rho"] = 1000 * file["alpha"][...]
    flat, ways = {key: None for key in RICH if key.startswith("receivers")}, modes(program)
    pulse = {"medium.density": "in.h5:/rho", "initial.u": "zero", **{key: None for key in RICH if key.startswith("source.2")}}
    for about, changes in (("layers", {}), ("dispersion removed", pulse), ("heat", HEAT),
                           ("2D", {**flat, "grid.ny": 1, "medium.velocity": 1500, "initial.u": "random"})):
        config, removed = program.config({**MAPS, **changes}), about == "dispersion removed"
        result = program.succeed(config)
        check("out/u.maps.hdf" in result.out.split("written: ")[1] and removed == ("removed from" in result.out), f"{about}: {result}")
        dt = check_maps(program, "out/u", about, range(21), removed)
        window = [f"maps.from={4 * dt:.15g}", f"maps.until={16 * dt:.15g}", "maps.every=2", f"maps.dft={0.19 / dt:.9g} {0.05 / dt:.9g}"]
        program.succeed("-q", config, *window, "output.path=out/w", "output.every=0")
        check_maps(program, "out/w", f"{about}, a window", range(4, 16, 2), removed)
        whole = contents(program.folder / "out/u.maps.hdf")
        ways = [*ways[2:], *ways[:2]]
        for ranks, options in [*ways[:3], (2, ["parallel.transport=sendrecv", "parallel.overlap=off"])]:
            program.succeed("-q", config, *options, "output.path=out/v", "output.every=0", np=ranks)
            found = contents(program.folder / "out/v.maps.hdf")
            check(found == whole, f"{about}: {ranks} ranks {options}: other {[k for k in whole if found.get(k) != whole[k]]}")
        program.remove("out/[vc].*")
        for ranks, steps in ((2, 9), (3, 14), (0, 20)):
            program.succeed("-q", "-r", "auto", config, f"time.steps={steps}", "output.path=out/v", np=ranks)
        check(contents(program.folder / "out/v.maps.hdf") == whole, f"{about}: other maps after restarts")
    for size in (1e-24, 1e30):
        program.succeed("-q", program.config({**MAPS, **pulse, "source.1.amplitude": size}))
        check_maps(program, "out/u", f"a source of {size}", range(21), True)
    program.config({**MAPS, **changes})
    program.succeed("-q", config)
    program.fail(2, ["[maps]", "max min rms"], "-r", "out/c.00000014.h5", config, "maps.quantities=max", "output.path=out/v")
    printed = program.succeed("-n", config).out
    check(re.search(r"^maps: 0\.\d MiB of this rank's device memory, a file out/u\.maps\.hdf of 0\.\d MiB$", printed, re.M), f"{printed}")
    printed = ASIDE.findall(program.succeed(config, "maps.quantities=", "maps.dft=").out)
    check(printed and (program.folder / f"{printed[0][2]}.maps.hdf").exists() and not (program.folder / "out/u.maps.hdf").exists(), f"{printed}")
    for options, words in ((["from=9"], "no step of the run counts, which ends at"), (["dft=1e9"], "[maps] dft: 1e+09 Hz: the steps that"),
                           (["quantities=max mean"], "max, min and rms, or some of them"), (["every=0"], "an integer >= 1"),
                           (["dft=1 2 3 4 5 6 7 8 9"], "at most 8 numbers > 0"), (["from=1e-3", "until=1e-3"], "[maps] until: only after `from`")):
        program.fail(1, [words], config, *[f"maps.{option}" for option in options])


# --- parts of fields ------------------------------------------------------------------------------------------------


def file_text(program, path):
    with h5py.File(program.folder / path, "r") as file:
        return file.attrs["config"]


@case
def parts(program):
    """output.box and stride save their part of the field, in every mode, compressed too; statistics are of the whole
    field."""
    rich_input(program)
    config = program.config({**RICH, "grid.origin": "1 -2 3", "source.1.position": "17 12 12", "receivers.positions": None})
    program.succeed("-q", config, "output.path=out/ref")
    whole, ways = {}, modes(program)
    for step in (0, 9, 20):
        with h5py.File(program.folder / f"out/ref.{step:08d}.hdf", "r") as file:
            whole[step] = {name: file[name][...] for name in "uzyx"}, {name: file.attrs[name] for name in ("min", "max", "sum", "l2", "q05")}
            counts = file["histogram"][...]
    for about, options, cut in (
            ("a box", ["box=5 21 2.9 13.1 7.5 30"], (slice(3, 19), slice(2, 7), slice(2, 11))),
            ("a stride", ["stride=3 1 4"], (slice(None, None, 4), slice(None), slice(None, None, 3))),
            ("planes", ["box=1 39 -2 30.5 22.5 24"], (slice(13, 15), slice(None), slice(None))),
            ("both", ["box=2 39 0 30 4.6 31.4", "stride=2 3 5", "compress=3"], (slice(2, 19, 5), slice(1, 13, 3), slice(1, 20, 2))),
            ("a point", ["box=9 9 8 8 30 30", "stride=9 9 9"], (slice(18, 19, 9), slice(4, 5, 9), slice(4, 5, 9)))):
        ways = [*ways[2:], *ways[:2]]
        for ranks, more in [(0, []), *ways[:2]]:
            program.succeed("-q", config, *(f"output.{o}" for o in options), *more, np=ranks)
            for step, (values, said) in whole.items():
                with h5py.File(program.folder / f"out/u.{step:08d}.hdf", "r") as file:
                    image, u = file["VTKHDF"].attrs, values["u"][cut]
                    check(same_bits(file["u"][...], u), f"{about}, {ranks} ranks {more}, step {step}: {file['u'].shape}, not {u.shape}")
                    axes = [values[name][part] for name, part in zip("zyx", cut)]
                    check(all(same_bits(file[name][...], axis) for name, axis in zip("zyx", axes)), f"{about}: axes")
                    check([d[0].name for d in file["u"].dims] == ["/z", "/y", "/x"], f"{about}: {list(file['u'].dims)}")
                    check(image["WholeExtent"].tolist() == [n for m in u.shape[::-1] for n in (0, m - 1)], f"{about}: {image['WholeExtent']}")
                    steps = [h * (part.step or 1) for h, part in zip((2, 2.5, 1.5), cut[::-1])]
                    check(np.allclose(image["Origin"], [axis[0] for axis in axes[::-1]]) and image["Spacing"].tolist() == steps, f"{about}: VTK")
                    check(all(file.attrs[name] == value for name, value in said.items()), f"{about}: other statistics")
            check(np.array_equal(h5py.File(program.folder / "out/u.00000020.hdf")["histogram"][...], counts), f"{about}: histogram")
            text = (program.folder / "out/u.xdmf").read_text()
            check(f'Dimensions="{" ".join(map(str, u.shape))}"' in text and " ".join(f"{h:.17g}" for h in steps[::-1]) in text, f"{about}: {text}")
            check(about != "a box" or "\nbox = 5 21 2.9 13.1 7.5 30\n" in file_text(program, "out/u.00000020.hdf"), "the configuration of a file")
    for box, listed in ((["output.box=9 21 8 8 7.5 30"], list(range(0, 19, 3))), (["output.box=11 23 8 8 7.5 30"], [12, 15, 18])):  # as many points
        begun = [*box, "parallel.io=server", "checkpoint.every_steps=9", "output.final=off"]
        program.succeed("-q", config, "output.box=9 21 8 8 7.5 30", *begun[1:], "time.steps=9", "output.path=out/w", "checkpoint.path=out/w", np=2)
        said = program.succeed("--restart", "out/w.00000009.h5", config, *begun, "output.path=out/w", "checkpoint.path=out/w", np=2).out
        check([step for step, _ in series_of(program, "out/w")] == listed, f"{box}: {series_of(program, 'out/w')}")
        check(("another [output] box" in said) == (len(listed) == 3), said)
    program.fail(2, ["(26, 14, 20)", "(1, 1, 1)"], config, "initial.u=out/u.00000009.hdf:/u", "output.path=out/v")
    for box, words in (("0 9 0 9 4 9", "x is from 1 to 39"), ("1 9 0 31 4 9", "y is from -2 to 30.5"), ("1 9 0 9 9 4", "z0 <= z1"),
                       ("1.2 1.3 0 9 4 9", "points between"), ("1 9 0 9 4", "6 numbers"), ("50 60 0 9 4 9", "x0 <= x1 in the grid")):
        program.fail(1, ["[output] box: expected", words], config, f"output.box={box}")
    for stride in ("0 1 1", "1 1.5 1", "2 2", "-1 1 1"):
        program.fail(1, ["[output] stride: expected 3 integers"], config, f"output.stride={stride}")
    flat = program.config({"equation.type": "wave", "grid.ny": 1, "output.box": "3 12 -7 99 2 9", "output.stride": "1 5 2"})
    program.succeed("-q", flat, np=2)
    program.succeed("-q", flat, "output.path=out/ref", "output.box=", "output.stride=")
    check(same_bits(program.field(3), program.field(3, "out/ref")[2:10:2, :, 3:13]), f"2D: {program.field(3).shape}")
    program.succeed("-q", flat, "report.file=r.json", np=3)
    check(report(program)["writer"]["bytes"] == program.field(3).size * 4, f"wrote {report(program)['writer']}")
    large = program.config({"grid.nx": 256, "grid.ny": 128, "grid.nz": 64})
    printed = [re.search(r"^output: .* of (\S+) MiB", program.succeed("-n", large, *more).out, re.M)[1]
            for more in ([], ["output.box=0 127 3 66 0 63"], ["output.stride=2 2 4"])]
    check(printed == ["8.0", "2.0", "0.5"], f"a dry run tells of {printed}")


# --- slow disks: gzip 9 of noise ------------------------------------------------------------------------------------

SLOW = {"grid.nx": 96, "grid.ny": 96, "grid.nz": 96, "equation.type": "wave", **ORIGIN, "output.compress": 9,
        "boundary.all": "absorbing", "boundary.width": 5, "checkpoint.path": "out/c", "report.file": "r.json"}


def report(program):
    return json.loads((program.folder / "r.json").read_text())


@case
def back_pressure(program):
    """A writer slower than the steps holds them back, in bounded memory; every file is right."""
    slab = 96**3 * 4
    ways = [(2, "gather"), (3, "server")]
    few = program.config({**SLOW, "time.steps": 4, "output.every": 2, "checkpoint.every_steps": 2}, "few.ini")
    many = program.config({**SLOW, "time.steps": 20, "output.every": 2, "checkpoint.every_steps": 5}, "many.ini")
    program.succeed("-q", many, "output.compress=0", "output.path=out/ref", "checkpoint.path=out/cref")
    for ranks, io in ways:
        program.succeed("-q", few, f"parallel.io={io}", "output.path=out/few", "checkpoint.path=out/cfew", np=ranks)
        least = sum(rank["host_bytes"] for rank in report(program)["per_rank"])
        result = program.succeed(many, f"parallel.io={io}", np=ranks)
        found = report(program)
        most = sum(rank["host_bytes"] for rank in found["per_rank"])
        # The few have two copies and a checkpoint at once, too; without a bound it would be some 15 fields.
        check(most - least < 5 * slab, f"{io}: {(most - least) / slab:.1f} slabs more for more output")
        check(found["phases"]["io_wait"] > 0 and found["phases"]["io"] >= found["phases"]["io_wait"],
              f"{io}: no back-pressure printed: {found['phases']}")
        with h5py.File(program.folder / "out/c.00000020.h5") as file:
            saved = 11 * slab + 4 * sum(a.size * 4 for a in file.values() if a.dtype == np.float32)
        check(found["writer"]["bytes"] == saved, f"{io}: wrote {found['writer']}, not {saved} bytes")
        check(found["writer"]["seconds"] > 0, f"{io}: {found['writer']}")
        check("MiB/s" in result.out, f"{io}: the report says nothing of the writer: {result}")
        for step, field in fields_of(program, "out/ref").items():
            check(same_bits(program.field(step), field), f"{io}: other bits at step {step}")
        check(series_of(program, "out/u") == series_of(program, "out/ref"), f"{io}: another series")
        print(f"{io}: {(most - least) / slab:.1f} slabs more memory, {found['phases']['io_wait'] * 20:.2f} s of waiting, "
              f"{found['writer']['rate'] / 1e6:.0f} MB/s")


def start(program, config, *options, ranks):
    return Running(program, "--restart", "auto", config, "time.steps=3000", "report.progress=off", *options, np=ranks,
                   launch=["--mca", "odls_base_sigkill_timeout", "0"])


def finish(program, config, last, about):
    end = f"time.steps={last + 7}"
    program.succeed("-q", "--restart", "auto", config, end, np=2)
    program.succeed("-q", config, end, "output.path=out/ref", "checkpoint.path=out/cref", "output.compress=0")
    found, expected = fields_of(program, "out/u"), fields_of(program, "out/ref")
    check(set(expected) <= set(found), f"{about}: fields of steps {sorted(found)}, not {sorted(expected)}")
    for step, field in expected.items():
        check(same_bits(found[step], field), f"{about}: other bits at step {step}")
    check(series_of(program, "out/u") == series_of(program, "out/ref"), f"{about}: another series")


@case
def signals(program):
    """A signal, also to the server alone, while files are being written: all is written, then a checkpoint, exit 75."""
    config = program.config({**SLOW, "output.every": 3})
    last = 0
    for io, ranks, to in (("gather", 2, 0), ("server", 3, -1), ("server", 3, 0), ("auto", 1, 0)):
        with start(program, config, f"parallel.io={io}", ranks=ranks) as run:
            run.wait_for(lambda: re.search("from the start|restart from", run.out()), "the start")
            run.wait_for(lambda: temporaries(program), "a field being written")
            send(run.ranks()[to], signal.SIGUSR1)
            result = run.wait()
        about = f"{io}, SIGUSR1 to rank {to} of {ranks}"
        said = re.search(r"^stencil: stopped after step (\d+) of ", result.err, re.MULTILINE)
        check(result.code == 75 and said, f"{about}: {result}")
        newest = max(checkpoints(program))
        check(int(said.group(1)) == newest > last, f"{about}: checkpoints {checkpoints(program)}: {result}")
        check(not temporaries(program), f"{about}: left {temporaries(program)}")
        steps = [step for step, _ in series_of(program, "out/u")]
        check(steps == list(range(0, newest + 1, 3)), f"{about}: at step {newest} the series is {steps}")
        last = newest
        print(f"{about}: stopped after step {newest}", flush=True)
    finish(program, config, last, "after all signals")


@case
def kills(program):
    """SIGKILL of any rank, the server too, while files are being written: whole files only, and the run goes on."""
    config, dice = program.config({**SLOW, "output.every": 3, "checkpoint.every_steps": 4}), random.Random(8)
    inside = 0
    for number in range(4):
        io, ranks = (("server", 3), ("gather", 2))[number % 2]
        with start(program, config, f"parallel.io={io}", ranks=ranks) as run:
            run.wait_for(lambda: re.search(r"^checkpoint out/c", run.out(), re.M), "a checkpoint")
            run.wait_for(lambda: temporaries(program), "something being written")
            time.sleep(dice.uniform(0, 0.1))
            everybody = run.ranks() + [run.process.pid]
            send(run.ranks()[-1] if number < 2 else dice.choice(run.ranks()), signal.SIGKILL)
            result = run.wait()
            wait_gone(everybody, "after a killed rank")
        check(result.code != 0 and "passed over" not in result.out, f"kill {number}: {result}")
        inside += bool(temporaries(program))
        for path in program.folder.glob("out/*.h*"):
            if path.suffix in (".hdf", ".h5"):
                contents(path)  # fails on what is not whole
    check(inside > 0, "no kill came while a file was being written")
    print(f"4 kills, {inside} while a file was being written")
    finish(program, config, max(checkpoints(program)), "after all kills")


def hold_up(program, run):
    """Stops all ranks when a field is being written; what is then left of it."""
    def fields():
        return [name for name in temporaries(program) if "/u.0" in name]

    run.wait_for(fields, "a field being written")
    for pid in run.ranks():
        send(pid, signal.SIGSTOP)
    return fields()


@case
def two_runs(program):
    """Two runs into the same files, one delayed while it writes: both end, and every file is whole and of one run."""
    for io, ranks, compress in (("gather", 2, 9), ("server", 3, 9), ("auto", 2, 0)):
        program.fresh()
        config = program.config({**SLOW, "initial.u": "random"})
        args = ["time.steps=12", "output.every=3", f"parallel.io={io}", f"output.compress={compress}"]
        with start(program, config, *args, ranks=ranks) as run:
            held = hold_up(program, run)
            while compress and not held:  # the field was whole just before
                for pid in run.ranks():
                    send(pid, signal.SIGCONT)
                held = hold_up(program, run)
            program.succeed("-q", config, *args, "initial.seed=3", np=ranks)
            for pid in run.ranks():
                send(pid, signal.SIGCONT)
            result = run.wait()
        check(result.code == 0, f"{io}: held up in {held}: {result}")
        check(not temporaries(program), f"{io}: left {temporaries(program)}")
        check(len(fields_of(program, "out/u")) == 5, f"{io}: saved {program.files()}")
        for path in program.folder.glob("out/u.*.hdf"):
            with h5py.File(path, "r") as file:
                found, printed = np.max(file["u"][...]), file.attrs["max"]
            check(found == printed, f"{io}, {path.name}: holds up to {found}, says {printed}")


@case
def full_disk(program):
    """A disk that fills up while the steps go on: exit 2 naming the file, soon; what was written is whole."""
    # Compressed, as nobody knows then beforehand that it will not fit; the field is noise, which stays large.
    config = program.config({"grid.nx": 40, "grid.ny": 40, "grid.nz": 40, "time.steps": 4000, "equation.type": "wave",
                             "output.compress": 1, "initial.u": "random",
                             "output.path": "out/small/u", "output.every": 5, "checkpoint.path": "out/c",
                             "checkpoint.every_steps": 5, "checkpoint.keep": 9})  # fields of 256 kB
    (program.folder / "out/small").mkdir()
    program.need_mounts()
    for ranks, io in ((0, "gather"), (3, "gather"), (3, "server")):
        result = run_mounted(program, config, f"parallel.io={io}", size="1400k", ranks=ranks)
        about = f"{io}, {ranks} ranks"
        check(result.code == 2 and len(result.errors) == 1, f"{about}: expected exit 2 and one error, got {result}")
        named = re.search(r"out/small/u\.(\d+)\.hdf: cannot write", result.errors[0])
        check(named, f"{about}: {result.errors[0]}")
        failed, found = int(named.group(1)), fields_of(program, "out/small/u")
        check(sorted(found) == list(range(0, failed, 5)) and failed >= 20, f"{about}: {sorted(found)}, failed at {failed}")
        check([step for step, _ in series_of(program, "out/small/u")] == sorted(found), f"{about}: another series")
        check(not temporaries(program), f"{about}: left {temporaries(program)}")
        kept = checkpoints(program)
        check(max(kept) == failed - 5, f"{about}: checkpoints {sorted(kept)}, but the field of step {failed} failed")
        reached = max(int(s) for s in re.findall(r"^step (\d+): min", result.out, re.M))
        check(reached <= failed + 3 * 5, f"{about}: step {reached} was reached, though step {failed} had failed")
        # With room, the run goes on; the series lists what is there.
        end = ["time.steps=40", "checkpoint.every_steps=0"]
        program.succeed("-q", "--restart", "auto", config, *end, np=2)
        program.succeed("-q", config, *end, "output.path=out/ref", "checkpoint.path=out/cref")
        check_same(program, "out/small/u", "out/ref", False, about)
        program.remove("out/small/*", "out/*.*")
        print(f"{about}: the field of step {failed} failed, step {reached} was reached")


@case
def series(program):
    """Fields saved faster than the series is written: it lists them all when the run ends, however it ends, and after a
    restart even where the run before was killed and nothing more is saved."""
    keys = {**WAVE, "initial.u": "random", "medium.velocity": 2000, "output.every": 2, "checkpoint.path": "out/c"}
    steady = program.config({**keys, "time.steps": 40})
    unstable = program.config({**keys, "time.dt": 0.004, "time.allow_unstable": "on", "time.steps": 500}, "unstable.ini")
    for io, ranks in (("server", 3), ("gather", 2), ("gather", 1)):
        program.succeed("-q", steady, f"parallel.io={io}", "checkpoint.every_steps=40", np=ranks)
        listed = series_of(program, "out/u")
        check([step for step, _ in listed] == list(range(0, 41, 2)), f"{io}, {ranks} ranks: {listed}")
        program.succeed("-q", steady, f"parallel.io={io}", "time.steps=0", "output.path=out/v", np=ranks)
        for list_ in ("xdmf", "hdf.series"):  # as a killed run leaves it
            (program.folder / f"out/u.{list_}").write_text((program.folder / f"out/v.{list_}").read_text())
        program.succeed("-q", "--restart", "auto", steady, f"parallel.io={io}", np=ranks)
        check(series_of(program, "out/u") == listed, f"{io}, {ranks} ranks, restarted: {series_of(program, 'out/u')}")
        result = program.run("-q", unstable, f"parallel.io={io}", "output.path=out/w", np=ranks)
        found = sorted(fields_of(program, "out/w"))
        check(result.code == 3 and len(found) > 5, f"{io}, {ranks} ranks: no overflow after some fields: {result}")
        check([step for step, _ in series_of(program, "out/w")] == found, f"{io}, {ranks} ranks, overflow: another series")
        program.remove("out/*.*")


@case
def cuda(program):
    """Copies that a GPU makes while it goes on: the host's files, and a restart from what was written then."""
    keys = {**WAVE, "grid.nx": 96, "grid.ny": 60, "grid.nz": 72, "time.steps": 30, "boundary.all": "absorbing",
            "boundary.width": 8, "receivers.line": "3 4 3.3 150 100 90 9", "output.every": 2, "checkpoint.path": "out/c",
            "checkpoint.every_steps": 3, "initial.u": "random", "maps.quantities": "max min rms", "maps.dft": "40 15"}
    program.skip_without_cuda()
    program.remove("out/*")
    config = program.config(keys)
    program.succeed("-q", config, "output.path=out/ref", "checkpoint.every_steps=0")
    expected = fields_of(program, "out/ref")
    datasets = ("max", "min", "rms", "dft")
    of_all = [read_field(program.folder / "out/ref.maps.hdf", program.path, name) for name in datasets]
    part = ["output.box=8 150 7.5 100 9 72", "output.stride=2 1 3", "maps.quantities=", "maps.dft=", "checkpoint.every_steps=0"]
    program.succeed("-q", config, *part, "output.path=out/part")
    config = program.config({**keys, "device.backend": "cuda"})
    program.succeed("-q", config, *part, "output.path=out/cut", np=2)
    of_parts, found = fields_of(program, "out/part"), fields_of(program, "out/cut")
    check(found.keys() == of_parts.keys() and all(same_bits(found[k], of_parts[k]) for k in found), "parts of fields have other bits")
    for ranks, io in ((0, "gather"), (2, "auto"), (3, "server")):
        program.succeed("-q", config, f"parallel.io={io}", np=ranks)
        newest = sorted(checkpoints(program))
        check(newest == [27, 30], f"{ranks} ranks, {io}: checkpoints {newest}")
        (program.folder / "out/c.00000030.h5").unlink()
        program.succeed("-q", "--restart", "auto", config, f"parallel.io={io}", "output.path=out/v", np=ranks)
        for path, steps in (("out/u", expected), ("out/v", (28, 30))):
            for name, values in zip(datasets, of_all):
                check(same_bits(read_field(program.folder / f"{path}.maps.hdf", program.path, name), values),
                      f"{ranks} ranks, {io}: {path}: other bits in /{name}")
            found = fields_of(program, path)
            check(sorted(found) == sorted(steps), f"{ranks} ranks, {io}: {path} has steps {sorted(found)}")
            for step in steps:
                check(same_bits(found[step], expected[step]), f"{ranks} ranks, {io}: {path}: other bits at step {step}")
        program.remove("out/[ucv].*")


if __name__ == "__main__":
    main(without_h5py=("cuda",))
