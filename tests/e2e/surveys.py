#!/usr/bin/env python3
"""[survey] shots: many shots over one model in one program, each with the bits of a run of its own.
surveys.py CASE STENCIL MPIEXEC   |   surveys.py --list
"""
import csv
import io
import json
import random
import re
import shutil
import signal
import sys
import time

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import SOURCE, Running, case, check, h5py, main, np, same_bits, send
from run_files import checkpoints, fields_of, temporaries

SURVEY = {"grid.nx": 24, "grid.ny": 16, "grid.nz": 24, "time.steps": 30, "equation.type": "wave", "initial.u": "zero",
          "medium.velocity": "in.h5:/v", "boundary.all": "absorbing", "boundary.width": 4, "boundary.z_lo": "dirichlet",
          "source.1.f0": 60, "source.1.position": "12 8 9", "receivers.points": "3 4 3.5, 20 11 7", "report.check_every": 10,
          "output.path": "out/line", "output.final": "off", "survey.shots": "shots.txt"}
NAMES = "number,name,line,state,exit,seconds,error,warnings"


def prepare(program, lines, **changes):
    rng = np.random.default_rng(5)
    with h5py.File(program.folder / "in.h5", "w") as file:
        file["v"] = rng.uniform(1500, 3000, (24, 16, 24)).astype(np.float32)
        file["w"], file["at"] = rng.uniform(-1, 1, 40), [[3.2, 4, 5], [12, 8, 20.5], [7, 7, 7]]
        file["u"] = rng.uniform(-1, 1, (24, 16, 24)).astype(np.float32)
    (program.folder / "shots.txt").write_bytes(("\n".join(lines) + "\n").encode(errors="surrogateescape"))
    return program.config({**SURVEY, **changes})


def table(program, path="out/line"):
    text = (program.folder / path / "survey.csv").read_text()
    check(text.startswith(NAMES + "\n") and text.endswith("\n"), f"survey.csv: {text}")
    return list(csv.DictReader(io.StringIO(text)))


def states(program):
    return [(row["name"], row["state"], row["exit"]) for row in table(program)]


def values(path, names=("u", "time", "position", "source_position")):
    """Datasets of a file, of receivers if nothing is said."""
    with h5py.File(path, "r") as file:
        return {name: file[name][...] for name in names}


def check_same(program, name, about, path="out/line", kinds=(".receivers.h5",)):
    """The shot's files equal those of a single run in single/: traces, and the named others; a field with its
    statistics."""
    for kind in kinds:
        with h5py.File(program.folder / path / (name + kind)) as found, h5py.File(program.folder / "single" / (name + kind)) as expected:
            for key in expected:
                if isinstance(expected[key], h5py.Dataset) and (expected[key].dtype.kind == "f" or key == "histogram"):
                    check(same_bits(found[key][...], expected[key][...]), f"{about}: {name}{kind}: other bits in /{key}")
                    check(len(expected[key].shape) < 2 or ".00000000" in kind or expected[key][...].any(), f"{about}: {name}{kind}: /{key} is zero")
            for key in {"min", "max", "sum", "l2", "step", "time", "dt", "q01", "q50", "q99"} & set(expected.attrs):
                check(found.attrs[key] == expected.attrs[key], f"{about}: {name}{kind}: another {key}")


def check_shot(program, name, config, overrides):
    """The shot left what a run with its overrides leaves."""
    program.succeed("-q", config, *overrides, "survey.shots=", "output.name=", f"output.path=single/{name}")
    fields = fields_of(program, f"single/{name}")
    check(sorted(fields_of(program, f"out/line/{name}")) == sorted(fields), f"{name}: other steps than {list(fields)}")
    check_same(program, name, "again", kinds=[".receivers.h5", *(f".{step:08d}.hdf" for step in fields)])


VARIED = ['"source.1.position=5.5 8 10"', "# a remark", "source.1.position='9 3 12' source.1.f0=40\r",
          "  receivers.points= receivers.positions=in.h5:/at   # so is this", "", "initial.u=in.h5:/u source.1.position=",
          r"source.1.wavelet=in.h5:/w output.name=by\ table", "source.2.position='6 6 6' source.2.f0=50 source.2.amplitude=-2",
          'initial.u="gaussian" initial.width=2 source.1.f0= source.1.position='.replace(" source.1.f0= source.1.position=", "")]
KEYS = [["source.1.position=5.5 8 10"], ["source.1.position=9 3 12", "source.1.f0=40"],
        ["receivers.points=", "receivers.positions=in.h5:/at"], None, ["source.1.wavelet=in.h5:/w"],
        ["source.2.position=6 6 6", "source.2.f0=50", "source.2.amplitude=-2"], ["initial.u=gaussian", "initial.width=2"]]


@case
def bits(program):
    """Every shot has the bits of a single run, whatever the groups; the table and the report list the shots done."""
    VARIED[5] = "initial.u=in.h5:/u"
    KEYS[3] = ["initial.u=in.h5:/u"]
    config = prepare(program, VARIED, **{"output.every": 20, "output.final": "on", "maps.quantities": "max rms", "maps.dft": 60})
    names = ["0001", "0002", "0003", "0004", "by table", "0006", "0007"]
    for name, keys in zip(names, KEYS):
        program.succeed("-q", config, *keys, "survey.shots=", f"output.path=single/{name}")
    for ranks, options in ((0, []), (1, ["survey.at_once=3"]), (2, []), (4, []), (3, ["survey.ranks_per_shot=2"]),
                           (4, ["survey.ranks_per_shot=2"]), (3, ["parallel.io=server"]), (2, ["parallel.io=gather"])):
        about = f"{ranks} ranks, {options}"
        result = program.succeed("--report", "r.json", config, *options, np=ranks)
        check(states(program) == [(name, "done", "0") for name in names], f"{about}: {table(program)}")
        check([row["line"] for row in table(program)] == ["1", "3", "4", "6", "7", "8", "9"], f"{about}: {table(program)}")
        check(all(float(row["seconds"]) > 0 and not row["error"] for row in table(program)), f"{about}: {table(program)}")
        check(("left over" in result.out) == (options == ["survey.ranks_per_shot=2"] and ranks == 3), f"{about}: {result}")
        for name in names:
            check(sorted(fields_of(program, f"out/line/{name}")) == [0, 20, 30], f"{about}: {name}: other steps")
            check_same(program, name, about, kinds=(".receivers.h5", ".maps.hdf", ".00000020.hdf", ".00000030.hdf"))
        report = json.loads((program.folder / "r.json").read_text())
        check(report["shots"] == 7 and report["steps"] == 7 * 30 and report["shots_per_hour"] > 0 and
              0 <= report["overhead_fraction"] <= 1, f"{about}: {report}")
        check(result.out.count("\n100 %  shot 7 of 7") == 1, f"{about}: the last line of progress: {result}")
        check(not temporaries(program), f"{about}: {temporaries(program)}")
        with h5py.File(program.folder / "out/line/by table.receivers.h5", "r") as file:
            text = file.attrs["config"]
        check("survey" not in text and "\npath = out/line/by table\n" in text, f"{about}: {text}")
        (program.folder / "out/line").rename(program.folder / f"out/{ranks}-{len(options)}-{random.random()}")


@case
def lines(program):
    """A line that cannot be run ends the program before any shot: exit 1, with file, line and key."""
    good = "source.1.f0=50"
    bad = [("source.1.position='1 2 300'", "[source.1] position: 1 2 300 is outside the grid"),
           ("receivers.points='1 2 3, 30 1 1'", "[receivers] points: receiver 2 of 2, at 30 1 1 is outside"),
           ("source.1.f=50", "[source.1] f: unknown key"), ("sourc.1.f0=50", "[sourc.1]: unknown section"),
           ("source.1.f0=x", "[source.1] f0: expected a number > 0, got 'x'"), ("source.2.f0=50", "[source.2] position: required"),
           ("time.steps=3", "[time] steps: a shot may not change it"), ("output.path=x", "[output] path: a shot may not change it"),
           ("survey.shots=x", "[survey] shots: a shot may not change it"), ("medium.velocity=3", "[medium] velocity: a shot may"),
           ("--dry-run", "--dry-run: expected section.key=value"), ("other.ini", "other.ini: expected section.key=value"),
           ('"source.1.f0=3', "quotes must come in pairs"), ("source.1.f0=3\\", "something must follow a backslash"),
           ("output.name=a/b", "[output] name: expected a name without /"),
           ("output.name=..", "[output] name: expected a name without /, not of points alone"), ("output.name=0001", "the name of the shot of line 1"),
           ("receivers.line='1 1 1 2 2 2 3' receivers.positions=in.h5:/at", "[receivers] line: only without positions"),
           ("receivers.positions=in.h5:/at", "[receivers] points: only without positions and line"),
           ("output.name=\udcff", "[output] name: expected a file name in UTF-8"),
           ("output.name=" + "n" * 300, "[output] name: the value is longer than"), ("source.1.f0=5\0", "not a text file")]
    for line, words in bad:
        config = prepare(program, [good, "# a remark", line, good])
        result = program.fail(1, ["shots.txt:3: ", words], config)
        check(result.err.count("shots.txt:3: ") == 1, f"{result}")
    program.fail(1, ["shots.txt:3: "], config, np=2)
    config = prepare(program, [good, "", "source.1.f0=40"], **{"medium.quality": 50})
    program.fail(1, ["shots.txt:3: [medium] reference_frequency: required, since the f0 of shots differ"], config)
    program.succeed("-n", config, "medium.reference_frequency=45")
    for text, words in (("# none\n\n", "shots.txt: no shots"), (None, "shots.txt: cannot read the shots")):
        config = prepare(program, [text or ""])
        if text is None:
            (program.folder / "shots.txt").unlink()
        program.fail(1, [words], config)
    config = prepare(program, [good, good])
    result = program.fail(1, ["[grid] nx: expected"], config, "grid.nx=x")
    check("shots.txt" not in result.err, f"a mistake of all shots: {result}")
    refused = [(["--restart", "auto"], "--restart: not with [survey] shots: the same command again"),
               (["-b", 5], "--benchmark: not with [survey] shots"), (["checkpoint.every_steps=5"], "[checkpoint] every_steps: only"),
               (["checkpoint.path=c", "survey.ranks_per_shot=1"], "[checkpoint] path: only"),
               (["survey.on_stop=checkpoint"], "[survey] on_stop = checkpoint: only where ranks_per_shot is given"),
               (["survey.ranks_per_shot=2", "survey.at_once=2"], "[survey] at_once: only with ranks_per_shot = 1"),
               (["survey.ranks_per_shot=2"], "ranks_per_shot = 2: there are only 1"), (["output.name=a"], "the name of the shot of line 1"),
               (["--report", "shots.txt"], "[report] file"), (["--report", "out/line/survey.csv"], "[report] file")]
    for options, words in refused:
        options = [*options[:2], *options[2:]] if options[0].startswith("-") else options
        dashes = [o for o in options if options[0].startswith("-")]
        program.fail(1, [words], *dashes, config, *[o for o in options if o not in dashes])
    result = program.succeed("-n", "--measure", config, np=3)
    for words in ("[survey]\nshots = shots.txt\n", "survey: 3 groups of 1 rank", "memory per rank", "2 shots, all lines are in order",
                  "estimate: 2 shots take"):
        check(words in result.out, f"{words}: {result}")
    check(program.files() == {"in.h5", "shots.txt", "run.ini"}, f"a dry run left {program.files()}")
    # A run makes the folders that a dry run accepts: PATH and its parent.
    for path, fits in (("new/line", True), ("new/none/line", False)):
        if fits:
            printed = program.succeed("-n", config, f"output.path={path}").out
            check(f"make the folder of [output] path = {path}/" in printed and "checkpoint]" not in printed, f"{path}: {printed}")
            program.succeed("-q", config, f"output.path={path}")
            shutil.rmtree(program.folder / "new")
        else:
            program.fail(2, [path, "No such file or directory"], "-n", config, f"output.path={path}")
            program.fail(2, ["new/none", "No such file or directory"], config, f"output.path={path}")
    single = program.succeed(config, "survey.shots=", "output.name=x")
    check("ignored settings: [output] name" in single.out, f"{single}")


@case
def warned(program):
    """Every shot is looked at: a kind of warning is logged once, with the number of shots and the first; the table has all."""
    rows = ["source.1.position='12 8 9'", "source.1.position='1 8 9'", "source.1.position='2 8 9' source.1.amplitude=0", "source.1.f0=50"]
    layers, silent = "1 of 1 sources and 0 of 2 receivers lie in absorbing layers", "every source emits nothing"
    for about, changes in (("3D", {}), ("shots of a batch", {"grid.ny": 1, "survey.at_once": 3, "medium.velocity": 2000})):
        config = prepare(program, rows, **{"receivers.points": "12 8 12, 11 8 12", "source.1.f0": 40} | changes)
        for args in (["--dry-run"], [], ["--verbose"]):  # the last finds all done, and keeps what the table says
            log = program.succeed(*args, config).out
            again = args == ["--verbose"]
            wanted = [f"warning: 2 shots, first 0002 (shots.txt:2): {layers}", f"warning: 1 shot, first 0003 (shots.txt:3): {silent}"]
            check(all(log.count(text) == (not again) for text in wanted), f"{about} {args}: {log}")
            check(log.count(layers) <= 1, f"{about} {args}: printed twice: {log}")
        errors = [row["warnings"] for row in table(program)]
        check([layers in text for text in errors] == [False, True, True, False], f"{about}: {errors}")
        check([silent in text for text in errors] == [False, False, True, False], f"{about}: {errors}")
        shutil.rmtree(program.folder / "out")
    config = prepare(program, ["initial.u=in.h5:/u", "initial.u=in.h5:/u2"])
    program.fail(2, ["shots.txt:2: ", "in.h5"], "--dry-run", config)


@case
def failures(program):
    """A shot that fails costs itself alone; the others are done; the exit code is the worst; the same command does the rest."""
    lines_ = [f"source.1.position='{5 + i} 8 10'" for i in range(6)]
    lines_[1] += " initial.u=3e38"
    lines_[3] += " source.1.wavelet=none.h5:/w"
    lines_[4] += ' output.name=\'a, "quoted" name\''
    config = prepare(program, lines_)
    names = ["0001", "0002", "0003", "0004", 'a, "quoted" name', "0006"]
    expected = [(n, *(("failed", "3") if i == 1 else ("failed", "2") if i == 3 else ("done", "0"))) for i, n in enumerate(names)]
    for ranks, options in ((0, []), (2, []), (4, ["survey.ranks_per_shot=2"]), (3, ["parallel.io=server"])):
        result = program.run(config, *options, np=ranks)
        check(result.code == 3 and len(result.errors) == 1, f"{ranks} ranks: {result}")
        check("2 of 6 shots failed, see out/line/survey.csv; shot 0002 (shots.txt:2): step" in result.err, f"{result}")
        check("shot 0004 (shots.txt:4) failed: none.h5:/w: cannot open" in result.out, f"{result}")
        check(states(program) == expected, f"{ranks} ranks: {table(program)}")
        check("the field is not finite" in table(program)[1]["error"], f"{table(program)}")
        there = {p.name.removesuffix(".receivers.h5") for p in (program.folder / "out/line").glob("*.h5")}
        check(there == {n for n, state, _ in expected if state == "done"}, f"{there}")
        if not ranks:
            for i in (0, 2, 5):
                check_shot(program, names[i], config, [lines_[i].replace("'", "")])
        (program.folder / "out/line").rename(program.folder / f"out/{ranks}")
    (program.folder / "out/0").rename(program.folder / "out/line")
    before = {p: p.stat().st_mtime_ns for p in (program.folder / "out/line").glob("*.h5")}
    with h5py.File(program.folder / "none.h5", "w") as file:
        file["w"] = np.random.default_rng(3).uniform(-1, 1, 40)
    (program.folder / "shots.txt").write_text("\n".join(lines_).replace(" initial.u=3e38", "") + "\n")
    result = program.succeed(config, np=2)
    check("4 of 6 shots are done" in result.out and states(program) == [(n, "done", "0") for n in names], f"{result}")
    check({p: p.stat().st_mtime_ns for p in before} == before, "a shot that was done ran again")
    check(all(row["seconds"] for row in table(program)), f"{table(program)}")


SECTION = {"grid.nx": 70, "grid.ny": 1, "grid.nz": 40, "grid.dy": "", "boundary.width": 6, "time.steps": 90,
           "medium.velocity": "2d.h5:/v", "source.1.position": "30 0 9",
           "source.1.f0": 200, "receivers.points": "3 0 3.5, END 0 31"}
MEDIA = {"density": "2d.h5:/rho", "quality": "2d.h5:/q", "reference_frequency": 60, "absorption_band": "20 190"}
ROWS = ["source.1.position='5.3 9 10'", "source.1.position='END 0 30.7' source.1.f0=140", "receivers.points= receivers.positions=2d.h5:/at",
        "sources.positions=2d.h5:/at sources.signals=2d.h5:/w", "receivers.points= receivers.line='1 0 1 END 0 38 33'", "source.1.wavelet=2d.h5:/w1",
        "receivers.interpolation=linear sources.interpolation=linear"]


def prepare_batch(program, nx=70, **more):
    """Shots of a 2D survey step together, each with the bits of a run of its own; one that fails costs itself alone."""
    rng = np.random.default_rng(8)
    rows = [row.replace("END", str(nx - 10)) for row in ROWS]
    section = {key: str(value).replace("END", str(nx - 10)) for key, value in SECTION.items()}
    config = prepare(program, rows, **section | {"grid.nx": nx}, **more)
    with h5py.File(program.folder / "2d.h5", "w") as file:
        for name, least, most in (("v", 1500, 3000), ("rho", 1000, 2500), ("q", 30, 90), ("u", -1, 1)):
            file[name] = rng.uniform(least, most, (40, 1, nx)).astype(np.float32)
        file["at"], file["w"], file["w1"] = rng.uniform(5, 35, (5, 3)), rng.uniform(-1, 1, (90, 5)), rng.uniform(-1, 1, 40)
    names = [f"{i + 1:04}" for i in range(len(rows))]
    saved = (".00000000.hdf", ".00000045.hdf", ".00000090.hdf")
    maps, traces = ("maps.quantities=max min rms", "maps.dft=60 100"), ".receivers.h5"
    for about, changes, kinds in (
            ("media", [f"medium.{key}={value}" for key, value in MEDIA.items()] + [*maps, "output.every=45"], (traces, ".maps.hdf", *saved)),
            ("density", ["medium.density=2d.h5:/rho", "output.final=on", "report.histogram=9"], (traces, saved[-1])),
            ("cut", ["output.every=40", "output.final=on", f"output.box=2 {nx - 40} 0 0 0 25", "output.stride=2 1 3", "output.compress=1"],
             (traces, ".00000000.hdf", ".00000040.hdf", ".00000080.hdf", ".00000090.hdf")),
            ("field", ["initial.u=2d.h5:/u", "boundary.x=periodic"], (traces,)),
            ("plain", ["boundary.z_hi=neumann", *maps, "output.every=45", "output.compress=2", "report.histogram=7"], (traces, ".maps.hdf", *saved))):
        for name, row in zip(names, rows):
            keys = [word.replace("'", "") for word in re.findall(r"(?:[^ ']|'[^']*')+", row)]
            program.succeed("-q", config, *keys, *changes, "survey.shots=", f"output.path=single/{name}")
        for ranks, most in ((0, 7), (0, 3), (2, 4)):
            result = program.succeed(config, *changes, f"survey.at_once={most}", np=ranks)
            check(f"{min(most, 7 if ranks == 0 else 4)} shots together" in result.out, f"{result}")
            check(states(program) == [(name, "done", "0") for name in names], f"{about}: {table(program)}")
            for name in names:
                check_same(program, name, f"{about}, {most}", kinds=kinds)
                done, lists = (program.folder / f"out/line/{name}{ending}" for ending in (traces, ".hdf.series"))
                check(not lists.exists() or lists.stat().st_ctime_ns <= done.stat().st_ctime_ns, f"{about}: traces before the lists")
                check(sorted(fields_of(program, f"out/line/{name}")) == [int(k[1:9]) for k in kinds if re.match(r"\.\d", k)], f"{about}: other fields")
            (program.folder / "out/line").rename(program.folder / f"out/{about}-{ranks}-{most}")
    broken = [*rows[:3], rows[3].replace("/w", "/none"), rows[4] + " source.1.amplitude=3e38 source.1.wavelet=2d.h5:/w1", *rows[5:]]
    (program.folder / "shots.txt").write_text("\n".join(broken) + "\n")
    result = program.run(config, *changes, "survey.at_once=4")
    check(result.code == 3 and [row["exit"] for row in table(program)] == ["0", "0", "0", "2", "3", "0", "0"], f"{result}")
    check(re.search(r"step [1-9]0: the field is not finite at \d+ of \d+ points, first at x = \d+, y = 0,", result.out), f"{result}")
    for name in names[:3] + names[5:]:
        check_same(program, name, "beside one that failed", kinds=kinds)
    late = program.run(config, *changes, "survey.at_once=4", "report.check_every=200", "output.path=out/late")
    check(late.code == 3 and "shot 0005 (shots.txt:5) failed: step 45: the field is not finite" in late.out, f"{late}")
    check(list(fields_of(program, "out/late/0005")) == [0], "a field that is not finite was saved")
    lists = json.loads((program.folder / "out/late/0005.hdf.series").read_text())["files"]
    check([one["name"] for one in lists] == ["0005.00000000.hdf"], f"the lists of a shot that failed: {lists}")
    for name in names[:3] + names[5:]:
        check_same(program, name, "beside one that could not be saved", "out/late", kinds)
    before = {p: p.stat().st_mtime_ns for p in (program.folder / "out/line").glob("*.h5")}
    (program.folder / "shots.txt").write_text("\n".join(rows) + "\n")
    result = program.succeed(config, *changes, "survey.at_once=4")
    check("5 of 7 shots are done" in result.out and states(program) == [(n, "done", "0") for n in names], f"{result}")
    check({p: p.stat().st_mtime_ns for p in before} == before, "a shot that was done ran again")
    for keys in (["survey.on_stop=checkpoint"],
                 ["device.kernel=" + ("naive" if more else "reference")]):
        result = program.succeed(config, *changes, *keys, "survey.at_once=2", "output.path=out/else", *(
            ["survey.ranks_per_shot=1"] if keys[0].endswith("checkpoint") else []))
        check("shots together" not in result.out, f"{keys}: {result}")
        for name in names:
            check_same(program, name, f"{keys}", "out/else")


@case
def batch(program):
    prepare_batch(program)


@case
def batch_cuda(program):
    program.skip_without_cuda()
    prepare_batch(program, 331, **{"device.backend": "cuda"})  # as wide as layers in the interior kernel allow


@case
def batch_cuda_packs(program):
    program.skip_without_cuda()
    prepare_batch(program, 332, **{"device.backend": "cuda"})


@case
def batch_cuda_lower_tiles(program):
    """13 shots are more than tiles of 12 rows hold, and fewer than those of 16: the kernel takes tiles of other heights than its own."""
    program.skip_without_cuda()
    nx, nz = 601, 280
    rng = np.random.default_rng(9)
    lines = [f"source.1.position='{20 + 45 * i} 0 {9 + i}'" for i in range(13)]
    config = prepare(program, lines, **SECTION | {"grid.nx": nx, "grid.nz": nz, "device.backend": "cuda",
                                                  "receivers.points": "", "receivers.line": f"0 0 30 {nx - 1} 0 30 200"})
    with h5py.File(program.folder / "2d.h5", "w") as file:
        file["v"], file["rho"] = (rng.uniform(least, most, (nz, 1, nx)).astype(np.float32) for least, most in ((1500, 3000), (1000, 2500)))
    for keys in ([], ["medium.density=2d.h5:/rho"]):
        program.succeed("-q", config, *keys, "survey.at_once=1", "output.path=single")
        program.succeed("-q", config, *keys, "survey.at_once=13")
        for number in range(1, 14):
            check_same(program, f"{number:04}", f"{keys}")


@case
def again(program):
    """The same command does missing shots. Files of another configuration or other data are moved aside, or replaced,
    and done anew."""
    lines_ = [f"source.1.position='{5 + i} 8 10' source.1.wavelet=in.h5:/w" for i in range(4)]
    config = prepare(program, lines_, **{"output.every": 10, "maps.quantities": "min"})
    folder = program.folder / "out/line"

    def run(moved, *options, np_=0, about=""):
        before = {p.name: p.stat().st_mtime_ns for p in folder.glob("0*.receivers.h5")}
        old = len(list(folder.glob("*.old*.receivers.h5")))
        program.succeed(config, *options, np=np_)
        check(states(program) == [(f"{i:04d}", "done", "0") for i in range(1, 5)], f"{about}: {table(program)}")
        redone = [n for n in sorted(before) if ".old" not in n and (folder / n).stat().st_mtime_ns != before[n]]
        check([int(n[:4]) for n in redone] == moved, f"{about}: {redone} were done again, not {moved}")
        check(len(list(folder.glob("*.old*.receivers.h5"))) - old == len(moved), f"{about}: {sorted(program.files())}")

    program.succeed(config)
    run([], about="nothing changed")
    result = program.succeed("--report", "none.json", config)
    check("none.json is not written: this run has done no shot" in result.out and "none.json" not in program.files(), f"{result}")
    run([], "survey.at_once=2", "parallel.transport=sendrecv", "checkpoint.keep=2".replace("checkpoint.keep=2", "report.check_every=7"),
        np_=2, about="nothing that counts changed")
    (folder / "0002.receivers.h5").rename(program.folder / "gone")
    run([], about="one is missing")
    check((folder / "0002.receivers.h5").exists() and not list(folder.glob("*.old*")), f"{sorted(program.files())}")
    (folder / "0003.00000010.hdf").unlink()
    program.succeed(config)
    check((folder / "0003.00000010.hdf").exists(), "a missing field was not made again")
    (folder / "0001.maps.hdf").unlink()
    check("3 of 4 shots are done" in program.succeed(config).out and (folder / "0001.maps.hdf").exists(), "a missing map was not made again")
    with open(folder / "0004.receivers.h5", "r+b") as file:
        file.truncate(3000)
    program.succeed(config)
    check(len(values(folder / "0004.receivers.h5")["u"]) == 31, "a file cut short counts as whole")
    for path in folder.glob("*.old*"):
        path.unlink()
    lines_[2] = lines_[2].replace("7 8 10", "7 8 11")
    (program.folder / "shots.txt").write_text("# remark\n" + "\n".join(lines_) + "\n")
    run([3], about="another line")
    check(len(list(folder.glob("0003.old*.maps.hdf"))) == 1, f"{sorted(program.files())}")
    with h5py.File(program.folder / "in.h5", "r+") as file:
        file["w"][3] += 0.25
    run([1, 2, 3, 4], about="another wavelet", np_=2)
    with h5py.File(program.folder / "in.h5", "r+") as file:
        file["v"][20, 3, 4] += 1
    run([1, 2, 3, 4], about="another model")
    for path in folder.glob("*.old*"):
        path.unlink()
    for i in (0, 2):
        check_shot(program, f"{i + 1:04d}", config, lines_[i].replace("'", "").replace(" source.1.wavelet", "|source.1.wavelet").split("|"))
    run([1, 2, 3, 4], "time.steps=20", about="another number of steps", np_=4)
    old = set(folder.glob("*.old*"))
    for at_once in (1, 2):
        program.succeed(config, f"time.steps={20 - at_once}", "output.replace=on", "maps.quantities=", f"survey.at_once={at_once}")
        kept = {f"{i:04d}.{what}" for i in range(1, 5) for what in
                ("receivers.h5", "xdmf", "hdf.series", "00000000.hdf", "00000010.hdf")}
        found = {p.name for p in set(folder.glob("0*")) - old}
        check(found == kept and old <= set(folder.glob("*.old*")), f"replaced, {at_once} at once: {found ^ kept}")


LONG = {"time.steps": 1500, "report.progress": "off"}
MANY = [f"source.1.position='{3 + i % 17} {3 + i // 17} 9'" for i in range(24)]


LIMIT = 12  # s: a shot is done before, on a busy machine too; the ranks sleep until it is over, so a fast one is not done


def sleep_all(survey, seconds):
    ranks = survey.ranks()
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in ranks:
            send(pid, number)
        time.sleep(seconds if number == signal.SIGSTOP else 0)


def finish(program, config, ranks, about):
    """The same command does the rest; every shot is there, whole, with the bits of the survey that nobody disturbed."""
    program.succeed("-q", config, np=ranks)
    check(states(program) == [(f"{i:04d}", "done", "0") for i in range(1, 25)], f"{about}: {table(program)}")
    for i in range(1, 25):
        found, expected = values(program.folder / f"out/line/{i:04d}.receivers.h5"), values(program.folder / f"out/ref/{i:04d}.receivers.h5")
        check(all(same_bits(found[k], expected[k]) for k in expected), f"{about}: shot {i}: other bits")
    check(not temporaries(program), f"{about}: {sorted(program.files())}")
    # with several at once a signal may stop the first shot, too
    check("checkpoint" in about and "at_once" in about or not checkpoints(program, "out/line/0001.checkpoint"), f"{about}: {sorted(program.files())}")


@case
def stops(program):
    """A signal, the wall time or a death end a survey; the table is whole at every moment; the same command goes on."""
    config = prepare(program, MANY, **LONG)
    program.succeed("-q", config, "output.path=out/ref", np=2)
    stops = [(0, signal.SIGTERM, None, [], 75), (1, signal.SIGUSR1, None, [], 75), (2, signal.SIGUSR1, -1, [], 75),
            (4, signal.SIGKILL, -1, [], None), (4, signal.SIGUSR1, 1, ["survey.ranks_per_shot=2"], 75),
            (3, signal.SIGUSR1, None, ["parallel.io=server"], 75), (2, signal.SIGUSR1, None, ["survey.on_stop=finish"], 75),
            (2, signal.SIGUSR1, -1, ["survey.on_stop=checkpoint", "survey.ranks_per_shot=1"], 75),
            (2, signal.SIGUSR1, -1, ["survey.on_stop=checkpoint", "survey.ranks_per_shot=1", "survey.at_once=3"], 75),
            (3, signal.SIGUSR1, 0, ["survey.on_stop=checkpoint", "survey.ranks_per_shot=1", "survey.at_once=4", "parallel.io=server"], 75),
            (2, signal.SIGUSR1, 0, ["survey.at_once=4"], 75),
            (2, 0, None, [f"time.max_seconds={LIMIT}"], 75)]
    for ranks, number, rank, options, code in stops:
        about = f"{ranks} ranks, signal {number} to {rank}, {options}"
        with Running(program, config, *options, np=ranks) as survey:
            survey.wait_for(lambda: list((program.folder / "out/line").glob("00*.receivers.h5")), "a shot")
            for _ in range(20):
                table(program)
                time.sleep(0.01)
            if number:
                send(survey.ranks()[rank] if rank is not None else survey.process.pid, number)
            else:
                sleep_all(survey, LIMIT)
            result = survey.wait()
        check(result.code == code if code else result.code, f"{about}: {result}")
        rows = table(program)
        if code:
            check(re.search(r"stopped: .*; \d+ of 24 shots are done, the same command does the others", result.err), f"{about}: {result}")
            check({row["state"] for row in rows} == {"done", "left"}, f"{about}: {rows}")
            there = {p.name[:4] for p in (program.folder / "out/line").glob("*.receivers.h5")}
            check(there == {row["name"] for row in rows if row["state"] == "done"}, f"{about}: {there}, but {rows}")
            stopped = [row for row in rows if row["exit"] == "75"]
            check(not stopped or "survey.on_stop=finish" not in options, f"{about}: {rows}")
            written = list((program.folder / "out/line").glob("*.checkpoint.*.h5"))
            check(bool(written) == (bool(stopped) and "survey.on_stop=checkpoint" in options), f"{about}: {written}, {rows}")
            print(f"{about}: {len(stopped)} stopped, {len(there)} done", flush=True)
        if number and code:
            check("received: " in result.out, f"{about}: {result}")
        program.succeed("-q", config, *options if "checkpoint" in "".join(options) else (), np=ranks) if code else None
        finish(program, config, 2, about)
        for path in (program.folder / "out/line").iterdir():
            path.unlink()


THOUSAND = 1000
INFINITE = ["source.1.amplitude=3e38", "source.1.wavelet=in.h5:/steep"]
BROKEN = {137: (INFINITE, "3"), 500: (["source.1.wavelet=none.h5:/w"], "2"), 871: (INFINITE, "3")}


def thousand_rows(flat):
    """Overrides of a thousand shots, three of which fail, as lists of words."""
    rng = np.random.default_rng(41)
    rows = []
    for i in range(THOUSAND):
        x, y, z = rng.uniform(2, 21, 3)
        row = [f"source.1.position={x:.4f} {0 if flat else min(y, 13):.4f} {z:.4f}"]
        row += ([], ["sources.positions=in.h5:/at", "sources.signals=in.h5:/signals"], ["source.1.wavelet=in.h5:/w"],
                ["receivers.points=", "receivers.positions=in.h5:/at"], [f"source.1.f0={rng.uniform(30, 70):.3f}"],
                ["sources.interpolation=linear", f"output.name=line {i}"],
                ["source.1.position=", "source.1.f0=", "sources.positions=in.h5:/at", "sources.signals=in.h5:/signals",
                 "sources.mode=impose"])[i % (6 if flat else 7)]  # one line that imposes, and none is in a batch
        rows.append(row + BROKEN.get(i, ([],))[0])
    return rows


def thousand(program, flat, kinds, **more):
    """Thousands of shots on 1, 2 and 4 groups through a signal, a rewritten model, a death and another signal. At the
    end every possible shot is done once, with the bits of a single run."""
    rows = thousand_rows(flat)
    config = prepare(program, [" ".join(f"'{word}'" for word in row) for row in rows], **more, **{"report.progress": "off"})
    names = [next((w[12:] for w in row if w.startswith("output.name=")), f"{i + 1:04d}") for i, row in enumerate(rows)]
    with h5py.File(program.folder / "in.h5", "r+") as file:
        rng = np.random.default_rng(42)
        file["signals"], file["steep"] = rng.uniform(-1, 1, (30, 3)), np.full(31, 3e38)
        model = file["v"][...]
        if flat:
            del file["v"]
            model = model[:, :1, :]
            file["v"] = model
    for i, row in enumerate(rows):
        result = program.run("-q", config, *row, "survey.shots=", "output.name=", f"output.path=single/{names[i]}")
        check(result.code == int(BROKEN.get(i, ("", "0"))[1]), f"{names[i]}: {result}")
    folder = program.folder / "out/line"
    expected = [(n, *(("failed", BROKEN[i][1]) if i in BROKEN else ("done", "0"))) for i, n in enumerate(names)]
    rng = random.Random(43)

    def rewrite(by):
        with h5py.File(program.folder / "in.h5", "r+") as file:
            file["v"][...] = model + np.float32(by)

    def there():
        return {p.name for p in folder.glob("*.receivers.h5") if ".old" not in p.name}

    def whole():
        return {name: (folder / name).stat().st_mtime_ns for name in there()}

    def disturb(ranks, number, about):
        before, more_ = there(), rng.randrange(30, 90)
        with Running(program, config, *options, np=ranks) as survey:
            survey.wait_for(lambda: len(there() - before) >= more_, f"{more_} shots")
            send(rng.choice(survey.ranks()), number)
            result = survey.wait()
        check(result.code == 75 if number != signal.SIGKILL else result.code, f"{about}: {result}")
        print(f"{about}: {len(whole())} are there", flush=True)
        return whole()

    options = ["survey.at_once=8"] if flat else []
    for ranks in (1, 2, 4):
        rewrite(100)
        foreign = disturb(ranks, signal.SIGUSR1, f"{ranks} groups, another model")
        rewrite(0)
        kept = {}
        for number in (signal.SIGKILL, signal.SIGTERM):
            after = disturb(ranks, number, f"{ranks} groups, signal {number}")
            check(all(after[n] == kept[n] for n in kept), f"{ranks} groups: a shot that was done ran again")
            kept = {n: t for n, t in after.items() if foreign.get(n) != t}
        result = program.run(config, *options, np=ranks)
        check(("shots together" in result.out) == flat, f"{result}")
        check(result.code == 3 and states(program) == expected, f"{ranks} groups: {result}, {table(program)}")
        after = whole()
        check(set(after) == {f"{n}.receivers.h5" for n, state, _ in expected if state == "done"}, f"{ranks} groups: {sorted(after)}")
        check(all(after[n] == kept[n] for n in kept), f"{ranks} groups: a shot that was done ran again")
        left = {p.name for p in folder.iterdir() if p.suffix == ".h5" or ".tmp" in p.name} - set(after)
        aside = {n.replace(".rec", ".old1.rec") for n in foreign}
        check(left == aside, f"{ranks} groups: {left ^ aside}")
        for name in after:
            check_same(program, name.removesuffix(".receivers.h5"), f"{ranks} groups", kinds=kinds)
        shutil.rmtree(folder)


@case
def slow_thousand(program):
    thousand(program, False, [".receivers.h5"])


@case
def slow_thousand_in_batches(program):
    thousand(program, True, [".receivers.h5", ".maps.hdf", ".00000030.hdf"],
             **{"grid.ny": 1, "grid.dy": "", "receivers.points": "3 0 3.5, 20 0 7", "maps.quantities": "max rms", "output.final": "on"})


@case
def script(program):
    """jobs/survey.sbatch without Slurm: runs until all is done; the exit code is the program's."""
    config = prepare(program, MANY[:8], **LONG)
    command = ["bash", SOURCE / "jobs/survey.sbatch", config]
    env = {"STENCIL": program.path, "RANKS": "2"}
    result = program.finish(command, env={**env, "RUN_SECONDS": "1.5"})
    check(result.code == 0 and [row["state"] for row in table(program)] == 8 * ["done"], f"{result}")
    print(f"{result.out.count('made the folder') + result.out.count(' shots are done, the same')} runs", result.err.count("stopped: "))
    result = program.finish([*command, "survey.shots=none.txt"], env=env)
    check(result.code == 1 and "none.txt: cannot read the shots" in result.err, f"{result}")


if __name__ == "__main__":
    main()
