#!/usr/bin/env python3
"""stencil.io, the tools of jobs/ that use it, and the notebooks.

usage: python_module.py --list | python_module.py CASE STENCIL MPIEXEC
"""
import importlib.util
import io
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import ENVIRONMENT, PATIENCE, SOURCE, case, check, h5py, main, np, run_notebook, same_bits, skip

sys.path[:0] = [str(SOURCE / "jobs"), str(SOURCE / "python")]
if h5py:
    import stencil.io as st
NEED_PACKAGES = ["convert", "make_model", "plot", "plot_kernels"]
WAVE = {"grid.nx": 40, "grid.ny": 22, "grid.nz": 30, **{f"grid.d{a}": 0.5 * (i + 2) for i, a in enumerate("xyz")},
        "grid.origin": "100 -7 3", "equation.type": "wave", "initial.u": "zero", "source.1.position": "110.25 0.5 20",
        "source.1.wavelet": "ricker", "source.1.f0": 100, "time.steps": 60, "output.every": 20,
        "receivers.line": "101 0 6.5 119 0 6.5 7", "receivers.every": 3}
LITTLE = {key: value for key, value in WAVE.items() if not key.startswith("output")}


def expect(words, call, *args, kind=None, **kwargs):
    """An Error of one line with these words."""
    try:
        call(*args, **kwargs)
    except (kind or st.Error) as error:
        check("\n" not in str(error) and all(word in str(error) for word in words), f"expected {words} in one line: {error}")
        return error
    raise AssertionError(f"{args}: expected an error with {words}")


@contextmanager
def inside(program):
    """The program's folder and environment as this process's own."""
    before, folder = dict(os.environ), os.getcwd()
    os.environ.update(ENVIRONMENT, STENCIL=program.path, MPIRUN=program.mpiexec, TMPDIR=str(program.root))
    os.chdir(program.folder)
    try:
        yield
    finally:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(before)


def need(package, name=None):
    if importlib.util.find_spec(package) is None:
        skip(f"python3 has no {name or package}")


def tool(program, name, *args, code=0, **env):
    result = program.finish([sys.executable, "-B", SOURCE / f"jobs/{name}.py", *args], env=env)
    check(result.code == code and len(result.err.splitlines()) == (1 if code else 0), f"{name}.py {args}: {result}")
    return result


@case
def reading(program):
    """Reads what was saved: fields in their order, traces, configuration; not files of earlier runs."""
    program.succeed("-q", program.config({**WAVE, "time.steps": 100}), np=0)
    program.succeed("-q", "--report", "out/r.json", program.config(WAVE), np=2)
    with inside(program):
        run = st.open_run("out/u")
        check(run.fields.steps.tolist() == [0, 20, 40, 60] and len(run.fields) == 4, f"steps {run.fields.steps}")
        check(run.shape == (30, 22, 40) and run.spacing == (1, 1.5, 2) and run.origin == (100, -7, 3), f"{run} {run.spacing}")
        last = run.fields[-1]
        check(same_bits(last.values, program.field(60)) and np.ptp(last.values) > 0, "other values")
        check(same_bits(last[3:5, 7], program.field(60)[3:5, 7]), "another part")
        check([f.step for f in run.fields[1:3]] == [20, 40] and run.fields.times[3] == last.time > 0, "slices, times")
        check(last.coordinates()[2][[0, -1]].tolist() == [3, 61], f"z: {last.coordinates()[2]}")
        check(run.config["source.1"]["f0"] == "100" and run.config["grid"]["nx"] == "40", f"{run.config}")
        check(run.report["ranks"] == 2, "another report")
        traces = run.receivers
        check(traces.u.shape == (21, 7) and np.ptp(traces.u) > 0 and traces.position[-1].tolist() == [119, 0, 6.5], "traces")
        check(np.isclose(traces.interval, 3 * last.attributes["dt"]), f"interval {traces.interval}")
        for name in ("out/u.00000020.hdf", "out/u.receivers.h5", "out/u.xdmf"):
            check(len(st.open_run(name).fields) == 4, name)
        for path in [*Path("out").glob("u.*.hdf"), Path("out/u.hdf.series")]:
            path.unlink()
        only = st.open_run("out/u.receivers.h5")
        check((only.shape, only.spacing, only.origin) == (run.shape, run.spacing, run.origin) and len(only.fields) == 0, f"{only}")
        check(only.config == run.config and same_bits(only.receivers.u, traces.u), "a run that saved traces only")
        (program.folder / "text.h5").write_text("no HDF5")
        with h5py.File("flat.h5", "w") as file:
            file["u"] = np.arange(6.0).reshape(2, 3)
        expect(["out/v"], st.open_run, "out/v")
        expect(["none.h5", "no such file"], st.Field, "none.h5")
        expect(["text.h5", "not an HDF5 file"], st.Field, "text.h5")
        expect(["no dataset /v"], st.Field, "flat.h5:/v")
        expect(["(nz, ny, nx)", "(2, 3)"], st.Field, "flat.h5")


@case
def configurations(program):
    """write_config writes the program's effective configuration; it refuses what it could not read back."""
    with inside(program):
        base = {"grid.nx": 20, "grid.ny": np.int16(12), "grid": {"nz": np.array(19)}, "time.steps": 3, "equation.type": "wave"}
        points = [[1, 2, 3], (4.5, 5, 6)]
        for key, value, expected in (
                ("output.path", "a#b;c=[d]:'e' \"f\"", None), ("output.path", "é\u2028\x85x", None), ("output.path", Path("p"), "p"),
                ("output.path", 1023 * "x", None), ("parallel.overlap", np.bool_(False), "off"), ("parallel.overlap", True, "on"),
                ("grid.dx", np.float32(0.1), "0.10000000149011612"), ("grid.dy", np.array(2.5), "2.5"), ("report.file", "", None),
                ("grid.origin", np.arange(3), "0 1 2"), ("initial.center", [(1.5, 2, 3)], "1.5 2 3"),
                ("receivers.points", np.array(points), "1 2 3, 4.5 5 6"), ("receivers.points", points, "1 2 3, 4.5 5 6"),
                ("receivers.line", ([1, 2, 3], np.array([4, 5, 6]), 2), "1 2 3 4 5 6 2")):
            extra = {"initial.u": "gaussian", "initial.width": 2} if key == "initial.center" else {}
            path = {} if len(str(value)) < 1000 else {"output.path": None}
            st.write_config("c.ini", {**base, **extra, key: value}, "a comment\n[grid]\rnx = 7")
            if path:  # longer than a name of a file can be
                check(st.read_config("c.ini")["output"]["path"] == value, key)
                continue
            said = program.succeed("-n", "c.ini").out
            check(f"\n{key.split('.')[1]} = {value if expected is None else expected}\n" in said, f"{key}: {value!r}: {said}")
        Path("c.ini").unlink()
        for key, value in (
                *(("output.path", text) for text in ("a #b", "a ;b", "#a", " a", "a ", "a\u00a0", "a\nb", "x\n[grid]\nnx = 5", "a\rb",
                                                     "a\0b", "\udcff", 1024 * "x", "a\t;b")),
                *(("grid.dx", number) for number in (np.nan, -np.inf, None, 1j, b"1", {1, 2}, [], [1, []], [None], object())),
                *((name, 1) for name in ("nx", "grid.n=x", "gr]id.nx", "grid.nx\n", "grid. nx", ".nx", "grid.", 5, "grid:.nx"))):
            said = str(expect([repr(key)[1:-1]], st.write_config, "c.ini", {**base, key: value}))
            check(len(said) < 1500, said)
        expect(["grid.nx", "twice"], st.write_config, "c.ini", {"grid.nx": 1, "grid": {"nx": 1}})
        check(not Path("c.ini").exists(), "a refused configuration was written")
        for name in ("a #1", "a ;1", "a\n[grid]", " a"):
            np.save("m.npy", np.full((9, 9), 1500, np.float32))
            write_kwave("in.h5")
            files = program.files()
            model = ["convert", "model", "m.npy", "--axes", "zx", "--spacing", 1, 1, 1]
            tool(program, *model, f"{name}.h5", code=1)
            tool(program, *model, "m.h5", "--config", f"{name}.ini", code=1)
            tool(program, "make_model", "m.h5", 9, 1, 9, "--config", f"{name}.ini", code=1)
            tool(program, "convert", "kwave", "in.h5", name, code=1)
            check(program.files() == files, f"{name!r}: left behind {program.files() - files}")
            os.rename("m.npy", f"{name}.npy"), os.rename("in.h5", f"{name}.h5")  # names that are only read may be any
            tool(program, *model[:2], f"{name}.npy", *model[3:], "m.h5", "--config", "m.ini")
            tool(program, "convert", "kwave", f"{name}.h5", "k")
            check(st.read_config("k.ini")["grid"]["nx"] == "40" and st.read_config("m.ini")["output"]["path"] == "m", name)
        for given in (np.array([[101, 1, 3], [103, 4, 5.5]]), [(101, 1, 3), [103, 4, 5]]):
            said = program.succeed("-n", program.config({**WAVE, "receivers.line": None, "receivers.positions": st.write_positions("r.h5", given)}))
            check("2 receivers" in said.out, f"{said}")
        for given in ([1, 2, 3], [[1, 2]], [], [[1, 2, np.nan]], [[1, 2], [3]], "no"):
            expect(["r.h5", "(n, 3)"], st.write_positions, "r.h5", given)
        Path("d:").mkdir()
        tool(program, *model[:2], f"{name}.npy", *model[3:], "d:/m.h5", "--config", "d:/m.ini")
        check(st.read_config("d:/m.ini")["medium"]["velocity"] == "d:/m.h5:/vp" and st.Field("d:/m.h5:/vp").dataset == "vp", "d:/m.h5")


@case
def running(program):
    """A run from Python: ranks, overrides, progress, and the program's one error line."""
    program.config(WAVE)
    with inside(program):
        for ranks in (1, 2):
            with redirect_stdout(io.StringIO()) as out, warnings.catch_warnings(record=True) as printed:
                warnings.simplefilter("always")
                run = st.run("run.ini", {"output.path": "out/v", "time.steps": 40, "grid.origin": (101, -7, 4)}, ranks)
            check([str(one.message) for one in printed] == run.warnings and {one.filename for one in printed} <= {__file__}, f"{printed}")
            check(out.getvalue().count("%") == 10 and "100 %" in out.getvalue(), f"progress: {out.getvalue()}")
            check(run.report["ranks"] == ranks and run.fields.steps[-1] == 40 and run.origin == (101, -7, 4), f"{run}")
        for code, words, keys in ((1, "[grid] nx", {"grid.nx": "abc"}), (2, "no/such/u", {"output.path": "no/such/u"}),
                                  (3, "stability", {"time.dt": 1})):
            failed = expect(["stencil: error: ", words], st.run, "run.ini", keys, 2, kind=st.RunFailed)
            check(failed.code == code and "command line" not in str(failed), f"exit code {failed.code} of {keys}: {failed}")
        failed = expect(["error: overrides: [grid] n: "], st.run, "run.ini", {"grid.n": 3}, kind=st.RunFailed)
        sections = {"output": {"path": Path("new/w"), "every": 20}, **{k: v for k, v in WAVE.items() if not k.startswith("output")}}
        for options in ((), "--restart auto"):
            last = st.run(sections, {"grid": {"origin": np.array([101, -7, 4])}, "time.steps": 40}, options=options, quiet=True)
            check(same_bits(last.fields[-1].values, run.fields[-1].values), "a dictionary ran something else")
        again = st.run(last.config, {"output.path": "out/again"}, quiet=True)
        check(again.config["grid"] == last.config["grid"] and Path("new/w.run.ini").exists(), "an effective configuration")
        expect(["new/w.run.ini:", "[grid] n: "], st.run, {**sections, "grid.n": 3}, kind=st.RunFailed)
        expect(["none/none", "No such file"], st.run, {"output.path": "none/none/w"})
        for words, *args in ((["dictionary", "list"], ["grid.nx=3"]), (["dictionary", "NoneType"], None), (["grid.nx"], {"grid.nx": None}),
                             (["dictionary of keys", "list"], "run.ini", ["grid.nx=3"]), (["ranks", "'2'"], "run.ini", {}, "2"),
                             (["time.dt", "nan"], "run.ini", {"time.dt": np.nan}), (["ranks", "0"], "run.ini", {}, 0)):
            expect(words, st.run, *args)
        os.environ["STENCIL"] = "nowhere"
        expect(["nowhere", "STENCIL"], st.run, "run.ini")
        tools = Path("tools").resolve()
        tools.mkdir()
        for name in ("stencil", "other"):
            (tools / name).write_text("#!/bin/sh\n")
            (tools / name).chmod(0o755)
        os.environ["PATH"] = f"{tools}:{os.environ['PATH']}"
        for given, expected in (("other", "other"), ("tools/other", "other"), ("", "stencil"), (None, "stencil"), ("none", None)):
            os.environ.pop("STENCIL", None)
            os.environ.update({"STENCIL": given} if given is not None else {})
            said = subprocess.run(["bash", SOURCE / "jobs/restart.sbatch", "--program"], capture_output=True, text=True, check=False)
            if expected is None:
                expect([f"{given}: no such program"], st.launch.program_path)
                check(said.returncode == 1 and f"restart: error: {given}: no such program" in said.stderr, f"{said}")
                continue
            found = [Path(name).resolve() for name in (said.stdout.strip(), shutil.which(st.launch.program_path()))]
            check(found == 2 * [tools / expected], f"{given!r}: {found} {said}")


@case
def warned(program):
    """The program's warnings reach who runs it: once, as Python's, in threads too; on a terminal as they are."""
    keys = {**LITTLE, "source.1.f0": 300, "receivers.every": 50}  # too high for the grid; too rare
    with inside(program):
        with warnings.catch_warnings(record=True) as printed, redirect_stdout(io.StringIO()) as out, ThreadPoolExecutor() as pool:
            warnings.simplefilter("always")
            runs = list(pool.map(lambda n: st.run({**keys, "output.path": f"t{n}"}, quiet=n == 1), range(2)))
        said = sorted(str(one.message) for one in printed)
        check(any("points per wavelength" in line for line in said) and "warning" not in "".join(said), said)
        check(said == sorted(runs[0].warnings + runs[1].warnings) and runs[0].warnings == runs[1].warnings, f"{said} {runs}")
        check(out.getvalue().count("%") == 10, out.getvalue())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            expect(["points per wavelength"], st.run, {**keys, "output.path": "t3"}, kind=UserWarning)
    script = f"import stencil.io as st\nprint('said', st.run({ {**keys, 'output.path': 't4'} !r}).warnings)"
    env = {**program.environment, "PYTHONPATH": str(SOURCE / "python"), "STENCIL": program.path, "PYTHONWARNINGS": "error"}
    ours, its = pty.openpty()
    with subprocess.Popen([sys.executable, "-B", "-c", script], cwd=program.folder, env=env, stdout=its, stderr=its) as run:
        os.close(its)
        shown = "".join(line + "\n" for line in st.launch.lines_of(ours, False))
    os.close(ours)
    log, _, said = shown.partition("said ")
    check(run.returncode == 0 and log.count("points per wavelength") == said.count("points per wavelength") == 1, shown)
    check("warning: " in log and "\r" in log and "warning: " not in said, shown)


@case
def opened(program):
    """Finds a run's files however few they are: maps, gradients, the shots of a survey; the newest under a path."""
    program.config({**LITTLE, "output.final": "off", "time.dt": 2e-4})
    none = {"receivers.line": "", "receivers.every": ""}
    Path(program.folder / "line.txt").write_text("source.1.f0=90 output.name=low\n'source.1.position=112 3 20'\n")
    with inside(program):
        run = st.run("run.ini", {**none, "maps.quantities": "max rms", "maps.dft": "80 100", "output.path": "m"}, quiet=True)
        check(run.shape == (30, 22, 40) and run.spacing == (1, 1.5, 2) and run.report["ranks"] == 1 and not run.shots, f"{run}")
        with h5py.File("m.maps.hdf") as file:
            check(same_bits(run.maps.max.values, file["max"][...]) and np.ptp(run.maps["rms"][:]) > 0, f"{run.maps}")
        check("min" not in run.maps and run.maps.frequency.tolist() == [80, 100] and np.abs(run.maps.dft[1][:] - run.maps.dft[0][:]).max() > 0, "spectra")
        check(run.maps.dft[1].values.dtype.kind == "c" and st.open_run("m.maps.hdf").config == run.config, "spectra, config")
        expect(["no dataset /min"], lambda: run.maps.min, kind=AttributeError)
        expect(["m.receivers.h5: no such file"], lambda: run.receivers)
        run = st.run("run.ini", {**none, "output.path": "n", "checkpoint.every_steps": 30}, quiet=True)
        check(run.shape == (30, 22, 40) and run.config["source.1"]["f0"] == "100", f"checkpoints alone: {run}")
        check(run.report["steps"] == 60, f"{run.report}")

        for name, velocity in (("data", 1530), ("s", 1500)):
            extra = {"gradient.observed": "data/{name}.receivers.h5:/u"} if name == "s" else {}
            with redirect_stdout(io.StringIO()) as out:
                run = st.run("run.ini", {"survey.shots": "line.txt", "output.path": name, "medium.velocity": velocity, **extra})
            check("100 %  shot 2 of 2" in out.getvalue(), out.getvalue())
            check([len(run.shots), run.shots.names, run.shots.numbers] == [2, ["low", "0002"], [1, 2]], f"{run} {run.shots}")
            low = run.shots["low"]
            check(low.config["source.1"]["f0"] == "90" and same_bits(low.receivers.u, st.Receivers(f"{name}/low.receivers.h5").u), "low")
            sources = [one.receivers.source_position[0].tolist() for one in run.shots]
            check(sources == [[110.25, 0.5, 20], [112, 3, 20]], f"{sources}")
            check("f0" not in run.config["source.1"] and run.config["source.1"]["wavelet"] == "ricker", f"{run.config}")
            check(run.shape == (30, 22, 40) and run.report["ranks"] == 1 and not run.fields, f"{run.report}")
            expect(["each shot"], lambda: run.receivers)
        parts = [one.gradient for one in run.shots]
        check(np.allclose(run.gradient.velocity[:], parts[0].velocity[:] + parts[1].velocity[:], rtol=1e-5, atol=1e-30) and
              np.ptp(run.gradient.velocity[:]) > 0, "the sum of the gradients")
        check(run.gradient.shot.tolist() == ["low", "0002"], f"{run.gradient.shot}")
        check(run.gradient.misfit.tolist() == [part.misfit[0] for part in parts], f"{run.gradient.misfit}")
        expect(["no shot '0001' is done"], lambda: run.shots["0001"])
        check("2 shots" in st.to_segy(run, "s.sgy"), "to SEG-Y")
        tool(program, "convert", "segy", "s", "t.sgy")
        check(Path("s.sgy").read_bytes() == Path("t.sgy").read_bytes(), "other bytes")
        for name, shots in (("s", 2), ("s/survey.csv", 2), ("s.gradient.h5", 2), ("s/low.gradient.h5", 0), ("s/0002", 0)):
            check(len(st.open_run(name).shots) == shots, name)
        if importlib.util.find_spec("matplotlib"):
            import plot
            figure, said = drawing(plot)("slice", "s.gradient.h5:/velocity", "--axis", "z", "--index", 8)
            stars = [line.get_xydata().tolist() for line in figure.axes[0].lines if line.get_marker() == "*"]
            check(stars == [[[110.25, 0.5], [112, 3]]] and "2 sources" in said, f"{stars} {said}")
            os.rename("s", "elsewhere")
            figure, said = drawing(plot)("slice", "s.gradient.h5:/velocity", "--axis", "z", "--index", 8)
            marks = {line.get_marker() for line in figure.axes[0].lines} & {"*", "v"}
            check("source" not in said and not marks, f"without the shots' files: {said} {marks}")
            os.rename("elsewhere", "s")
        run = st.run("run.ini", {"output.path": "s"}, quiet=True)
        check(not run.shots and not st.open_run("s").shots, "the newer of a path is a run")


@case
def interrupted(program):
    """An interruption of Python lets the run write its checkpoint; only then does KeyboardInterrupt go on."""
    program.config({**WAVE, "time.steps": 100000000, "output.every": 100000000, "receivers.line": None, "receivers.every": None,
                    "time.dt": 1e-12})
    script = "import stencil.io as st\ntry: st.run('run.ini', ranks=2)\nexcept KeyboardInterrupt: print('interrupted')"
    env = {**program.environment, "PYTHONPATH": str(SOURCE / "python"), "STENCIL": program.path, "MPIRUN": program.mpiexec}
    command = [sys.executable, "-B", "-c", script]
    with subprocess.Popen(command, cwd=program.folder, env=env, stdout=subprocess.PIPE, text=True) as run:
        end = time.monotonic() + PATIENCE
        while not (program.folder / "out/u.00000000.hdf").exists():  # then the ranks take signals
            check(time.monotonic() < end and run.poll() is None, "the run did not start")
            time.sleep(0.1)
        run.send_signal(signal.SIGINT)
        try:
            out = run.communicate(timeout=PATIENCE)[0]
        except subprocess.TimeoutExpired:
            program.kill_all()
            raise AssertionError("the interruption has not ended it") from None
    check(run.returncode == 0 and "interrupted" in out, f"exit {run.returncode}: {out}")
    check(any(".checkpoint." in name for name in program.files()), f"no checkpoint: {program.files()}")


@case
def models(program):
    """Converts arrays and raw files to the program's input; resampling to another spacing keeps linear fields."""
    z, y, x = np.meshgrid(np.arange(30), np.arange(22), np.arange(40), indexing="ij")
    u = (2 * z - 3 * y + 5 * x + np.sin(x * y + z)).astype(np.float32)
    with inside(program):
        name = st.write_model("m.h5", u, "a", spacing=(1, 1.5, 2), units="Pa")
        st.write_wavelet("w.h5", [0, 0.01, 0.02], [0, 1, -0.5])
        keys = {**WAVE, "initial.u": name, "source.1.wavelet": st.write_wavelet("w.h5", [0, 0.01, 0.03], [0, 2, -1], "b"),
                "source.1.f0": None}
        program.succeed("-q", program.config(keys))
        check(same_bits(program.field(0), u), "the program read other values")
        check(st.Field(name).limits() == (u.min(), u.max()) and st.Field(name).spacing == (1, 1.5, 2), st.Field(name).summary())
        for label, units in (("vp", "m/s"), ("c0", "m/s"), ("in/Density", "kg/m3"), ("rho", "kg/m3"),
                             ("alpha_coeff", "dB/(MHz^y cm)"), ("u0", None)):
            printed = st.Field(st.write_model("units.h5", u + 2000, label, spacing=(1, 1.5, 2))).attributes
            check(printed.get("units") == units, f"{label}: {printed}")
        (program.folder / "units.h5").unlink()
        files = program.files()
        expect(["m.h5:/a: it is there already"], st.write_model, "m.h5", u, "a", beside=True)
        expect(["NaN", "plane 2"], st.write_model, "m.h5", np.where(z == 2, np.nan, u))
        for words, values, shape in (("29 planes, expected 30", u[:29], u.shape), ("plane 30 of 30", np.concatenate([u, u]), u.shape),
                                     ("plane 0 of 30: float32 of shape (22, 39)", u[..., 1:], u.shape), ("complex", u + 1j, None),
                                     ("<U1", np.full(u.shape, "x"), None), ("unequal", [[u[0]], [u[0, 0]]], None)):
            expect([words], st.write_model, "m.h5", values, shape=shape)
        expect(["m.h5:/vp: "], st.write_model, "m.h5", u, offset=object())
        expect(["(nz, ny, nx)"], st.write_model, "m.h5", u[0])
        for part in (u[:, :4], u[:, :1], u[:, :1, :1]):  # a row of sources along y, 2D, 1D
            shot = st.shot(st.write_model("line.h5", part + 200, spacing=(1, 1, 1)))
            said, row = st.write_shot("line.ini", "line.h5:/vp"), part.shape[1] > 1
            check(("row, 4 m apart" in said) == row == ("boundary.y" in shot) and shot["grid.ny"] == part.shape[1], f"{said}: {shot}")
            check("ignored" not in program.succeed("-n", "line.ini").out, f"{shot}")
        for part in (u[:, :2], u[:, :, :1], u[:4], u[:4, :1]):
            expect(["5 x 4 x 5 points (x, y, z); in 2D 1 along y"], st.shot, st.write_model("line.h5", part, spacing=(1, 1, 1)))
        (program.folder / "line.h5").unlink(), (program.folder / "line.ini").unlink()
        expect(["ascending"], st.write_wavelet, "w.h5", [0, 0], [1, 2])
        expect(["none/w.h5", "cannot write"], st.write_wavelet, "none/w.h5", [0, 1], [1, 2])
        check(program.files() == files and same_bits(st.Field(name).values, u), "a refused model left something behind")
        u.transpose(2, 0, 1).astype(">f8").tofile("raw")
        np.save("u.npy", u[:, 3].T)
        check(same_bits(st.from_raw("raw", (40, 30, 22), "xzy", ">f8"), u), "raw")
        check(same_bits(st.from_raw("u.npy", axes="xz"), u[:, 3:4]), "npy")
        expect(["expected 26401", "found 26400"], st.from_raw, "raw", (26401,), dtype=">f8")
        check(same_bits(st.volume(u[:, 3, 5], "z"), u[:, 3:4, 5:6]) and same_bits(st.volume(u[:, 3].T, "xz"), u[:, 3:4]), "1D, 2D")
        for axes in ("zz", "zy", "xy"):
            expect([f"axes {axes}"], st.volume, u[0], axes)
        expect(["needs a shape"], st.from_raw, "raw")
        expect(["as many ascending times"], st.write_wavelet, "w.h5", [0, 1, 2], [1, 2])
        for wrong in ((1, 2), (1, -1, 2), (1, 2, np.nan), "abc", 3, None):
            expect(["three finite numbers > 0"], st.resample, u, (1, 1.5, 2), wrong)
            expect(["three finite numbers > 0"], st.write_model, "wrong.h5", u, spacing=wrong)
        check(not (program.folder / "wrong.h5").exists(), "a model of a wrong spacing was written")
        expect(["found (22, 40)"], st.resample, u[0], (1, 1.5, 2), (1, 1, 1))
    line = (2 * z - 3 * y + 5 * x).astype(np.float32)
    for new in ((0.5, 1.5, 2), (1, 4, 3), (1.25, 1.5, 2.5)):
        got = st.resample(line, (1, 1.5, 2), new)
        points = [int(s * (n - 1) / h + 1e-9) + 1 for n, s, h in zip((30, 22, 40), (2, 1.5, 1), reversed(new))]
        Z, Y, X = np.meshgrid(*(np.arange(n) * h / s for n, s, h in zip(points, (2, 1.5, 1), reversed(new))), indexing="ij")
        check(got.shape == tuple(points) and np.allclose(got, 2 * Z - 3 * Y + 5 * X, atol=1e-3), f"resampled to {new}")


@case
def plain(program):
    """Other programs' datasets become plain numbers in SI units: units, packing, what is missing, values in other files."""
    random = np.random.default_rng(8)
    numbers, at = random.uniform(1, 2, (5, 4, 6)), (3, 2, 1)

    def made(values, attributes, **options):
        """(values, attributes) of a file's dataset as convert.py leaves it."""
        with h5py.File("in.h5", "w") as file:
            file.create_dataset("g/d", data=values, **options).attrs.update(attributes)
            file["text"], file.attrs["equation"] = "words", "wave"
        st.to_plain("in.h5", "out.h5")
        with h5py.File("out.h5") as file:
            check(list(file) == ["g"] and file.attrs["equation"] == "wave", f"{list(file)}")
            return file["g/d"][...], dict(file["g/d"].attrs)

    with inside(program):
        for factor, si, names in (
                (1, "m/s", ["m/s", "m.s-1", "M/S", "meters per second", " metre second^-1 "]), (0.3048, "m/s", ["ft/s", "feet per second"]),
                (1e3, "m/s", ["km/s", np.bytes_(b"km s-1"), "km*s**-1", "Kilometers/sec", "km\u00b7s\u207b\u00b9", "mm/\u00b5s", "m/ms",
                              np.array(["[km/s]"], h5py.string_dtype("ascii")), np.array(b"km/s", "S40")]),
                (1e-2, "m/s", ["cm/s"]), (1e-3, "m/s", ["mm/s"]), (1e3, "kg/m3", ["g/cm3", "g cm^-3"]), (1e-3, "s", ["ms"]),
                (1e-4, "m2/s", ["cm2/s", "cm**2/s", b"square centimetres per second"]), (1e-6, "m2/s", ["mm\u00b2/s", "mm2 s-1"]),
                (1, None, ["furlong/s", "m/", "Mm/s", "/", "x" * 99, "dB/(MHz^y cm)", "1", ""])):
            for i, unit in enumerate(names):
                name = ("units", "unit", "Units")[i % 3]
                values, known = made(numbers, {name: unit, "spacing": (1, 2, 3)})
                check(np.allclose(values, numbers * factor, 1e-6), f"{unit!r}: other values")
                check(known[name] == (unit if si is None else si) and list(known["spacing"]) == [1, 2, 3], f"{unit!r}: {known}")
        for kind, scale, offset in (("<i2", 0.01, np.float32(3)), (">f8", [2.5], -1), ("<f4", 1e-3, 0)):
            stored = (1000 * numbers).astype(kind)
            values, known = made(stored, {"scale_factor": scale, "add_offset": offset, "units": "km/s"}, chunks=True)
            right = (stored.astype(float) * np.float64(scale) + np.float64(offset)) * 1000
            check(same_bits(values, right.astype("f4")) and known == {"units": "m/s"}, f"{kind}: {known}")
        table = np.c_[np.arange(4.0), random.uniform(1, 2, 4)]
        check(same_bits(made(table, {"units": "ms"})[0], table * [1e-3, 1]), "a table of time and value")
        check(same_bits(made(np.array([[-2, 100]], "i1"), {"_Unsigned": "true"})[0], np.array([[254, 100]], "u1")), "_Unsigned")
        packed = {"scale_factor": 0.5, "add_offset": 100.0}
        for kind, bad, attributes, default in (
                ("f4", 1e20, {"_FillValue": 1e20}, None), ("f8", -999.25, {"_FillValue": np.float32(-999.25), **packed}, None),
                ("f2", 999.9, {"_FillValue": 999.9}, None), ("i2", -32768, {"_FillValue": np.int16(-32768), **packed}, None),
                (">i4", 2**31 - 1, {"missing_value": [5e9, 2**31 - 1]}, None), ("f4", 9.96920996838687e36, {}, 9.96920996838687e36),
                ("i2", -32767, {}, -32767), ("f4", np.nan, {}, None), ("i2", 9, {"valid_range": np.array([10, 30], "i2"), **packed}, None),
                ("i2", 41, {"valid_max": 120.0, **packed}, None), ("u1", 9, {"valid_min": np.uint8(10)}, None)):
            stored = (numbers * 10 + 5).astype(kind)
            right = made(stored, attributes)[0]
            stored[at], right[at] = bad, 7
            expect(["in.h5:/g/d", f"1 missing values, the first at {at}", "--fill"], made, stored, attributes, fillvalue=default)
            check(np.array_equal(filled(stored, attributes, default), right), f"{kind}, {attributes}: filled with another value")
        for wrong in ({"scale_factor": 0}, {"scale_factor": np.nan}, {"scale_factor": [1.0, 2.0]}, {"scale_factor": "2"}, {"add_offset": np.inf},
                      {"valid_range": 3.0}, {"valid_range": [1, 2, 3]}, {"valid_min": "3"}):
            expect(["in.h5:/g/d", *wrong], made, numbers, wrong)
        expect(["it would be written over"], st.to_plain, "in.h5", "in.h5")
        expect(["in.h5 has no dataset /none"], st.to_plain, "in.h5", "out.h5", ["/none"])
        with h5py.File("in.h5", "r") as file:  # as write_model decodes it
            check(st.Field(st.write_model("w.h5", numbers, units="km/s")).attributes["units"] == "m/s", "write_model: units")
            check(np.allclose(st.Field("w.h5:/vp").values, 1e3 * numbers, 1e-6), "write_model: values in km/s")
            expect(["valid_min"], st.write_model, "w.h5", file["g/d"])
        expect(["units banana: expected m/s"], st.write_model, "w.h5", numbers, units="banana")
        expect(["a missing value in plane 3"], st.write_model, "w.h5", np.ma.masked_equal(numbers, numbers[at]))


def filled(stored, attributes, default):
    with h5py.File("in.h5", "w") as file:
        file.create_dataset("d", data=stored, fillvalue=default).attrs.update(attributes)
    st.to_plain("in.h5", "out.h5", ["/d"], 7)
    with h5py.File("out.h5") as file:
        return file["d"][...]


@case
def plain_elsewhere(program):
    """Virtual datasets of any depth and raw files are flattened; where a value is missing in them, the line says which."""
    u = np.random.default_rng(4).uniform(-1, 1, (12, 3, 5)).astype("f4")
    with inside(program):
        (program.folder / "sub").mkdir()
        with h5py.File("sub/parts.h5", "w") as file:
            file["low"], file["high"], file["odd"] = u[:4], u[4:8], u[8:, ::-1]
        layout, outer, gap, striped = (h5py.VirtualLayout(u.shape, "f4") for _ in range(4))
        layout[:4], layout[4:8] = h5py.VirtualSource("parts.h5", "low", (4, 3, 5)), h5py.VirtualSource("parts.h5", "high", (4, 3, 5))
        layout[8:] = h5py.VirtualSource("parts.h5", "odd", (4, 3, 5))
        gap[1:5] = h5py.VirtualSource("parts.h5", "low", (4, 3, 5))
        for i in range(4):
            striped[i::4] = h5py.VirtualSource("whole.h5", "u", u.shape)[3 * i:3 * i + 3]
        outer[:] = h5py.VirtualSource(".", "v", u.shape)
        for name, one in (("v", layout), ("outer", outer), ("gap", gap)):
            with h5py.File("sub/v.h5", "a") as file:
                file.create_virtual_dataset(name, one, fillvalue=0.5)
        with h5py.File("sub/striped.h5", "w") as file, h5py.File("sub/whole.h5", "w") as whole:
            file.create_virtual_dataset("s", striped)
            whole["u"] = u
        u.tofile("raw"), u[1:].tofile("short")
        with h5py.File("raw.h5", "w") as file:
            for name in ("raw", "short", "none"):
                file.create_dataset(name, u.shape, "f4", external=[(name, 0, 400), (name, 400, h5py.h5f.UNLIMITED)])
        flat = np.concatenate([u[:8], u[8:, ::-1]])
        strides = np.empty_like(u)
        for i in range(4):
            strides[i::4] = u[3 * i:3 * i + 3]
        for path, name, right in (("sub/v.h5", "v", flat), ("sub/v.h5", "outer", flat), ("raw.h5", "raw", u), ("sub/striped.h5", "s", strides)):
            st.to_plain(path, "out.h5", [name])
            with h5py.File("out.h5") as file:
                check(same_bits(file[name][...], right) and not file[name].is_virtual and not file[name].external, f"{path}:/{name}")
        expect(["sub/v.h5:/gap", "no source holds the value at (0, 0, 0)"], st.to_plain, "sub/v.h5", "out.h5", ["gap"])
        for name in ("short", "none"):
            expect([f"raw.h5:/{name}", name, "expected"], st.to_plain, "raw.h5", "out.h5", [name])
        os.rename("sub/parts.h5", "sub/gone.h5")
        expect(["parts.h5: no such file"], st.to_plain, "sub/v.h5", "out.h5", ["v"])


@case
def wavelets(program):
    """Uneven times are resampled, even ones stay; the program takes both."""
    ricker = lambda t: (1 - 2 * (np.pi * 15 * (t - 0.1))**2) * np.exp(-(np.pi * 15 * (t - 0.1))**2)
    random = np.random.default_rng(5)
    with inside(program):
        def rows(*given, **more):
            with h5py.File(st.write_wavelet("w.h5", *given, **more).split(":")[0]) as file:
                return file["wavelet"][...]
        for apart, jitter, most in ((0.004, 0, 1e-15), (0.004, 0.3, 1e-3), (0.004, 0.45, 1e-3), (0.008, 0.2, 1e-2)):
            t = np.arange(0, 0.25, apart) + apart * jitter * random.uniform(-1, 1, int(np.ceil(0.25 / apart))) * np.sign(np.arange(0, 0.25, apart))
            found = rows(t, ricker(t), dt=0.001 if jitter else None)
            inner = found[found[:, 0] <= t[-1]]
            check(np.abs(inner[:, 1] - ricker(inner[:, 0])).max() < most and found[-1, 0] >= t[-1] - 1e-9, f"{apart}, {jitter}")
        ramp = np.array([[0, 0], [1, 0], [1.001, 1], [2, 1], [2.5, 1], [2.51, 0], [3, 0], [4, 0]])
        found = rows(*ramp.T)
        check(len(found) == 4001 and found[:, 1].min() == 0 and found[:, 1].max() == 1, "beside short ramps the curve swings")
        rounded = np.round(np.arange(30) / 300, 6)
        check(same_bits(rows(rounded, np.cos(rounded)), np.c_[rounded, np.cos(rounded)]), "times that are even but for rounding changed")
        for wrong in (0, -1, np.inf, 1e-9, "a"):
            expect(["dt" if wrong != "a" else "finite"], st.write_wavelet, "w.h5", *ramp.T, dt=wrong)
        name = st.write_wavelet("w.h5", *ramp.T, dt=0.01)
        columns = st.write_wavelet("w.h5", ramp[:, 0] / 100, np.c_[ramp[:, 1], -ramp[:, 1]], "g/s")
        st.write_positions("w.h5", [[3, 4, 5], [6, 7, 8]])
        config = program.config({"equation.type": "wave", "initial.u": "zero", "source.1.position": "3 3 3", "source.1.wavelet": name, "time.steps": 30,
                                 "sources.positions": "w.h5:/position", "sources.signals": columns})
        program.succeed("-q", config)
        with h5py.File("w.h5", "a") as file:
            file["g/time"][2] += 3e-6
        program.fail(2, ["w.h5:/g/time", "row 2", "even times", "st.write_wavelet"], "-q", config)


def gather_headers(segyio, run, path):
    """The headers and traces of a gather are those of the run."""
    traces = run.receivers
    with segyio.open(path, ignore_geometry=True) as file:
        for number, header in enumerate(file.header):
            scale = {-10000: 1e-4}[header[segyio.TraceField.SourceGroupScalar]]
            found = [scale * header[key] for key in (segyio.su.sx, segyio.su.sy, segyio.su.sdepth, segyio.su.gx, segyio.su.gy)]
            found.append(-scale * header[segyio.su.gelev])
            check(np.allclose(found, [110.25, 0.5, 20, *traces.position[number]], atol=1e-4), f"trace {number}: {found}")
        return file.trace.raw[:].T, segyio.tools.dt(file)


@case
def segy_traces(program):
    """Gathers in SEG-Y: coordinates, whole microseconds exactly, others resampled with the note that says so."""
    need("segyio")
    import segyio
    exact = program.config({**WAVE, "time.dt": 2e-4, "receivers.every": 2})
    with inside(program):
        run = st.run(exact, quiet=True)
        said = st.to_segy(run, "exact.sgy")
        traces, interval = gather_headers(segyio, run, "exact.sgy")
        check(interval == 400 and np.array_equal(traces, run.receivers.u) and "resampled" not in said, said)
        run = st.run(exact, {"time.dt": 1.234567e-4, "time.steps": 240, "output.path": "out/v"}, quiet=True)
        said = st.to_segy("out/v", "other.sgy")
        traces, interval = gather_headers(segyio, run, "other.sgy")
        check(interval == 246 and "246.9134" in said, said)
        time = interval * 1e-6 * np.arange(len(traces))
        fine = np.stack([np.interp(time, run.receivers.time, trace) for trace in run.receivers.u.T], axis=-1)
        check(np.abs(traces - fine).max() < 0.01 * np.abs(fine).max(), "resampled to something else")
        run = st.run(exact, {"time.dt": 1e-7, "receivers.every": 1}, quiet=True)
        expect(["0.1 us", "receivers.every"], st.to_segy, run, "short.sgy")
        none = {"source.1.position": None, "source.1.wavelet": None, "source.1.f0": None, "initial.u": "gaussian"}
        for name, every, back in (("shots.0042", 2e-4, run.receivers.u), ("43x", 1e-3, None)):  # of a run of 240 steps at 0.1 ms
            part = {} if back is not None else {"output.box": "102 118 0.5 0.5 5 9", "output.stride": "2 1 1"}  # no bin depends on it
            run = st.run(exact, {"time.dt": 1e-4, "receivers.every": 2, "time.steps": 600, "output.path": f"out/{name}", **part}, quiet=True)
            said = tool(program, "convert", "segy", f"out/{name}", "x.sgy", "--interval", every).out
            number = 42 if back is not None else 1
            with segyio.open("x.sgy", ignore_geometry=True) as file:
                fields, text, head = segyio.TraceField, bytes(file.text[0]).decode(), file.header[3]
                check(head[fields.FieldRecord] == head[fields.EnergySourcePoint] == number and f"shot {number}," in said, f"{head}")
                middle = (np.array([110.25, 0.5]) + run.receivers.position[3, :2]) / 2
                check(np.allclose([head[fields.CDP_X], head[fields.CDP_Y]], 1e4 * middle, atol=1), f"midpoint {head}")
                bins = np.rint((middle - [100, -7]) / [0.5, 0.75]).astype(int) + 1
                check([head[fields.CROSSLINE_3D], head[fields.INLINE_3D]] == bins.tolist() and
                      head[fields.CDP] == bins[0] + 79 * (bins[1] - 1), f"bins {bins}: {head}")
                check(head[fields.DelayRecordingTime] == -15 and all(word in text for word in ("F0 100 HZ", "T0 0.015 S", "1500")), text)
                check(Path("x.sgy").read_bytes()[3500:3502] == b"\1\0" and len(file.samples) == int(0.06 / every) + 1, "revision, samples")
                step = round(every / 2e-4)
                error = np.abs((file.trace.raw[:].T - run.receivers.u[::step])[:-8]).max() / np.abs(run.receivers.u).max()
                check(error < (1e-6 if step == 1 else 0.01), f"every {every}: {error}")
        many = st.run(exact, {"receivers.line": "101 0 6.5 119 0 6.5 40000", "time.steps": 4, "output.path": "out/many"}, quiet=True)
        st.to_segy(many, "many.sgy", shot=7)
        with segyio.open("many.sgy", ignore_geometry=True) as file:
            check(file.tracecount == 40000 and file.bin[segyio.BinField.Traces] == 0, f"{file.bin}")
            check(file.header[39999][segyio.TraceField.TraceNumber] == 40000 and file.header[9][segyio.TraceField.FieldRecord] == 7, "7")
        (program.folder / "line.txt").write_text("source.1.f0=90\n'source.1.position=104 3 9' receivers.line= 'receivers.points=103 1 9, 107 2 9'\n"
                                                 "output.name=bad source.1.wavelet=none.h5:/w source.1.f0=\n")
        program.run("-q", exact, "survey.shots=line.txt", "output.path=out/line", "output.final=off")
        said = tool(program, "convert", "segy", "out/line", "line.sgy").out
        one = [st.Receivers(f"out/line/000{shot}.receivers.h5") for shot in (1, 2)]
        with segyio.open("line.sgy", ignore_geometry=True) as file:
            count, heads = one[0].u.shape[1], [file.header[i] for i in (0, -1)]
            check(np.array_equal(file.trace.raw[:], np.concatenate([shot.u.T for shot in one])) and "2 shots" in said, said)
            check([h[fields.FieldRecord] for h in heads] == [1, 2] and heads[1][fields.TRACE_SEQUENCE_FILE] == count + 2 and
                  heads[1][fields.TraceNumber] == 2 and heads[1][fields.SourceX] == 104 * -heads[1][fields.SourceGroupScalar], f"{heads}")
            check(file.bin[segyio.BinField.Traces] == 0, "shots of other counts of traces")
            delays = [(h[fields.DelayRecordingTime], h[fields.ScalarTraceHeader]) for h in heads]
            check(delays == [(-16667, -1000), (-15, 1)], f"delays of 1.5 / 90 and 1.5 / 100 s: {delays}")
        check("their own numbers" in tool(program, "convert", "segy", "out/line", "x.sgy", "--shot", 3, code=1).err, "--shot")
        for interval in (1.5e-6, 0, 0.04):
            expect(["whole microseconds"], st.to_segy, many, "x.sgy", interval)
        for exact, written, scalar, words in ((-37.5, -375, -10, ""), (-1.5e-3, -15, -10000, ""), (-15e4, -15000, 10, ""), (20, 20, 1, ""),
                                              (-300 / 7, -4286, -100, "delay -42.86 ms, exactly -42.8571429")):
            data = np.zeros(1, st.segy.layout(st.segy.TRACE, ">", 240))
            data["interval"] = 100
            said = st.segy.delay(data, exact)
            check((data["delay"], data["time_scalar"]) == (written, scalar) and words in said and bool(words) == bool(said), f"{exact}: {data} {said}")
        expect(["no source"], st.to_segy, st.run(program.config({**WAVE, **none}), quiet=True), "none.sgy")
    pulse = np.linspace(0, 20, 401)[:, None]
    got, expected = st.segy.resample_time(np.sin(pulse), 0.05, 0.03)[:, 0], np.sin(0.03 * np.arange(667))
    check(np.abs(got - expected)[20:-20].max() < 1e-4, "a sine is another after resampling")
    both = np.sin(2 * np.pi * np.arange(1000)[:, None] * [0.05, 0.3])  # at every 4th sample the second aliases
    got = st.segy.resample_time(both, 1, 4)
    check(np.abs(got[20:-20, 0] - both[::4, 0][20:-20]).max() < 1e-3 and np.abs(got[20:-20, 1]).max() < 1e-3, "aliases")


def write_segy(path, traces, interval=12500, system=1, **headers):
    """segyio's; headers: a value, or one a trace."""
    import segyio
    traces = np.ascontiguousarray(traces, np.float32)
    spec = segyio.spec()
    spec.format, spec.samples, spec.tracecount = 5, np.arange(traces.shape[1]) * 12.5, len(traces)
    with segyio.create(path, spec) as file:
        signed = interval - 65536 * (interval > 32767)
        file.bin.update({segyio.BinField.Interval: signed, segyio.BinField.MeasurementSystem: system})
        for i, trace in enumerate(traces):
            file.header[i] = {segyio.TraceField.TRACE_SAMPLE_INTERVAL: signed,
                              **{getattr(segyio.TraceField, key): int(np.broadcast_to(values, len(traces))[i])
                                 for key, values in headers.items()}}
            file.trace[i] = trace


@case
def segy_models(program):
    """Models from SEG-Y: volumes in any order of traces, lines, and what headers do not say."""
    need("segyio")
    write = write_segy
    u = np.random.default_rng(3).uniform(1500, 4000, (7, 5, 6)).astype(np.float32)
    order = np.random.default_rng(4).permutation(30)
    with inside(program):
        y, x = np.divmod(order, 6)
        places = {"INLINE_3D": 10 + y, "CROSSLINE_3D": 100 + 2 * x, "CDP_X": 30000 + 250 * x, "CDP_Y": 400 * y,
                  "SourceGroupScalar": [-10] * 30}
        write("volume.sgy", u[:, y, x].T, **places)
        model = st.from_segy("volume.sgy")
        check(same_bits(model.values, u) and model.spacing == (25, 40, 12.5), f"{model.spacing} {model.note}")
        check(st.from_segy("volume.sgy", (1, 2, 3)).spacing == (1, 2, 3), "spacing was not taken")
        expect(["three finite numbers > 0"], st.from_segy, "volume.sgy", (1, 2))
        for words, interval, changes in (("", 12500, {}), ("", 12500, {"CDP_X": 0, "CDP_Y": 0}), ("spacing", 12500, {"CDP_X": 30000 + 260 * x}),
                                         ("spacing", 12000, {}), ("(3010, 0) m, the velocities (3000, 0)", 12500, {"CDP_X": 30100 + 250 * x}),
                                         ("another order", 12500, {"INLINE_3D": 20 - y}), ("first depth 20 m", 12500, {"DelayRecordingTime": 20}),
                                         ("--interval-in us", 12500, {})):
            write("rho.sgy", u[:, y, x].T, interval, **{**places, **changes})
            given = ["--spacing", 25, 40, 12.5] if "CDP_Y" in changes else ["--interval-in", "us"] if "us" in words else []
            said = tool(program, "convert", "model", "volume.sgy", "heavy.h5", "--density", "rho.sgy", *given, code=1 if words else 0)
            check("rho.sgy: " in said.err and words in said.err if words else "kg/m3" in said.out, f"{words}: {said}")
        write("line.sgy", u[:, 2].T, GroupX=[20 * i for i in range(6)])
        model = st.from_segy("line.sgy")
        check(same_bits(model.values, u[:, 2:3]) and model.spacing == (20, 20, 12.5), f"{model.spacing}")
        write("part.sgy", u[:, y, x].T[:-1], **{key: values[:-1] for key, values in places.items()})
        expect(["29 traces", "5 inlines", "6 crosslines"], st.from_segy, "part.sgy")
        write("bare.sgy", u[:, 2].T)
        expect(["do not say dx"], st.from_segy, "bare.sgy")
        for interval in (32767, 32768, 40000, 65535):
            write("line.sgy", u[:, 2].T, interval, GroupX=[20 * i for i in range(6)])
            check(np.isclose(st.from_segy("line.sgy").spacing[2], interval / 1000, rtol=1e-6), f"interval {interval}")
        for keys, given, dz, first in (({}, {}, 12.5, 300), ({"system": 2}, {}, 12.5 * 0.3048, 300 * 0.3048), ({}, {"delay": False}, 12.5, 0),
                                       ({"interval": 10}, {"interval_in": "m"}, 10, 300),
                                       ({"interval": 10}, {"interval_in": "ft"}, 3.048, 300 * 0.3048)):
            write("line.sgy", u[:, 2].T, **keys, GroupX=[1000 + 20 * i for i in range(6)], DelayRecordingTime=300)
            model, foot = st.from_segy("line.sgy", **given), 0.3048 if "system" in keys else 1
            check(np.allclose(model.spacing, (20 * foot, 20 * foot, dz)) and np.allclose(model.origin, (1000 * foot, 0, first)), f"{model}")
        for unit in (2, 3, 4):
            write("line.sgy", u[:, 2].T, GroupX=[20 * i for i in range(6)], CoordinateUnits=unit)
            expect(["angles", "--spacing"], st.from_segy, "line.sgy")
            check(st.from_segy("line.sgy", (1, 2, 3)).origin == (0, 0, 0), "angles as metres")
        layers = np.repeat([[2000.0], [3000.0]], [50, 70], axis=0) * np.ones((120, 3))  # of times: 0.1 s at 2000 m/s end at 100 m
        write("time.sgy", layers.T, 2000, GroupX=[0, 5, 10])
        model = st.from_segy("time.sgy", interval_in="us")
        depth = model.spacing[2] * np.argmax(model.values[:, 0, 1] > 2500)
        check(abs(depth - 100) < 2 and model.spacing[2] == 2 and abs(len(model.values) * 2 - (100 + 69 * 3)) < 6, f"{depth} {model}")
        for turn, mirror in ((0, 1), (27, 1), (200, -1)):  # whole metres; x to azimuth 90 - turn
            along, across = ([np.cos(a), np.sin(a)] for a in np.radians((turn, turn + mirror * 90)))
            i, j = np.divmod(np.arange(48 * 24), 24)
            east, north = (np.rint(5000 + 12.5 * j * along[a] + 25 * i * across[a]) for a in (0, 1))
            write("turned.sgy", np.outer(2000 + i * 24 + j, [1, 1.1]), INLINE_3D=i, CROSSLINE_3D=j, CDP_X=east, CDP_Y=north)
            model = st.from_segy("turned.sgy")
            check(np.allclose(model.spacing, (12.5, 25, 12.5), atol=2e-3) and np.allclose(model.origin, (5000, 5000, 0), atol=1), f"{model}")
            axes = model.azimuth or (90, 0)
            check(np.allclose(np.sin(np.radians(axes)), (along[0], across[0]), atol=1e-3) and (turn != 0 or not model.azimuth), f"{axes}")
        write("skew.sgy", u[:, y, x].T, **{**places, "CDP_X": 30000 + 250 * x + 100 * y})
        expect(["right angles"], st.from_segy, "skew.sgy")
        for count in (slice(None), y == 2):  # places in hundreds of metres: a volume, a line
            write("coarse.sgy", u[:, y, x].T[count], INLINE_3D=y[count], CROSSLINE_3D=x[count], SourceGroupScalar=100,
                  CDP_X=np.rint((25 * x[count] + 7000) / 100), CDP_Y=np.rint((40 * y[count] + 900) / 100))
            expect(["do not say dx"], st.from_segy, "coarse.sgy")
        write("hole.sgy", u[:, y, x].T, **{**places, "CDP_Y": 400 * (y + (y > 2))})
        expect(["do not say"], st.from_segy, "hole.sgy")
        expect(["inlines 3 and 4 are 80 m apart", "others 40 m"], st.from_segy, "hole.sgy", (25, 40, 12.5))
        write("uneven.sgy", u[:, y, x].T, INLINE_3D=y + (y > 2), CROSSLINE_3D=x)
        expect(["inlines are not evenly apart, 1 to 2"], st.from_segy, "uneven.sgy", (25, 40, 12.5))
        for numbers, unit, words in (([1, 2, 3, 5, 6, 7], 0, "1 to 2"), ([1, 2, 3, 3, 4, 5], 0, "0 to 1"), ([7, 5, 3, 1, -1, -3], 0, ""), ([4] * 6, 0, ""),
                                     ([1, 2, 3, 5, 6, 7], 1, "traces 3 and 4 are 50 m apart"), ([1, 2, 3, 3, 4, 5], 1, "traces 3 and 4 are 0 m apart"),
                                     ([1, 2, 3, 5, 6, 7], 2, "1 to 2"), (range(6), 2, ""), (range(6), 100, ""), ([1, 2, 3, 5, 6, 7], 100, "1 to 2")):
            write("line.sgy", u[:, 2].T, CDP=numbers, CDP_X=np.array(numbers) * 25 // max(1, unit) * (unit > 0), CoordinateUnits=2 if unit == 2 else 1,
                  SourceGroupScalar=max(1, unit))
            if words:
                expect([words], st.from_segy, "line.sgy", (25, 25, 12.5))
            else:
                check(same_bits(st.from_segy("line.sgy", (25, 25, 12.5)).values, u[:, 2:3]), f"{numbers} {unit}")
        write("holes.sgy", u[:, y, x].T[3:], **{key: np.broadcast_to(values, len(x))[3:] for key, values in places.items()})
        expect([f"3 of {len(x)} places have no trace"], st.from_segy, "holes.sgy")
        snake = np.concatenate([np.arange(6)[::(-1)**k] for k in range(5)])
        write("snake.sgy", u[:, np.repeat(range(5), 6), snake].T, CDP_X=25 * snake, CDP_Y=25 * np.repeat(range(5), 6), CDP=range(1, 31))
        expect(["30 traces", "--inline-byte"], st.from_segy, "snake.sgy")
        expect(["30 traces", "--inline-byte"], st.from_segy, "snake.sgy", (25, 25, 12.5))
        crooked = np.array([[0, 0], [100, 0], [200, 0], [250, 87], [300, 173], [400, 173]])
        write("line.sgy", u[:, 2].T, CDP_X=crooked[:, 0], CDP_Y=crooked[:, 1])
        model = st.from_segy("line.sgy")
        check(abs(model.spacing[0] - 100) < 0.2, "along a crooked line")
        where = st.places.world_of({"medium": {"velocity": st.write_model("crooked.h5", model)}})[0]
        points = np.array([[110, -7, 3], [130, 8, 3], [275 - 8.66, 130 + 5, 4], [420, 180, 5], [-50, 1, 6.0]])
        right = np.array([[110, -7, 3], [130, 8, 3], [350, 10, 4], [520, 7, 5], [-50, 1, 6]]) * [model.spacing[0] / 100, 1, 1]
        check(np.abs(where.run(points) - right).max() < 0.3 and np.abs(where.world(where.run(points)) - points).max() < 1e-9, f"{where.run(points)}")
        (program.folder / "text.sgy").write_text("no SEG-Y")
        expect(["text.sgy", "SEG-Y"], st.from_segy, "text.sgy")
        (program.folder / "cut.sgy").write_bytes((program.folder / "volume.sgy").read_bytes()[:-5])
        expect(["cut.sgy", "cut off"], st.from_segy, "cut.sgy")
        (program.folder / "cut.sgy").write_bytes((program.folder / "volume.sgy").read_bytes()[:3600])
        expect(["cut.sgy", "no trace"], st.from_segy, "cut.sgy")
        said = tool(program, "convert", "model", "volume.sgy", "m.h5", "--resample", "12.5", "40", "12.5").out
        check("11 x 5 x 7 points" in said and "5 inlines" in said, said)
        check(same_bits(st.Field("m.h5:/vp").values[..., ::2], u), "resampled points that were there are others")


@case
def segy_revision_2(program):
    """What revision 2 adds: headers before the traces, behind their own and at the end, long counts, the order of bytes, exact places."""
    need("segyio")
    u = np.random.default_rng(5).uniform(1500, 4000, (6, 9)).astype(np.float32)

    def put(where, byte, kind, value):
        where[byte - 1:byte - 1 + np.dtype(kind).itemsize] = np.array(value, kind).tobytes()

    def read(*changes, more=0, before=(), behind=b"", inside=lambda head, n: None, **kwargs):
        """The model of the file with these (byte, type, value) of its headers, `more` headers a trace, and texts."""
        data = bytearray(Path("plain.sgy").read_bytes())
        start, traces = data[:3600], [bytearray(data[3600 + 276 * n:3600 + 276 * (n + 1)]) for n in range(6)]
        for byte, kind, value in changes:
            put(start, byte, kind, value)
        result = bytes(start) + b"".join(text.ljust(3200) for text in before)
        for n, trace in enumerate(traces):
            head = bytearray(240 * (1 + more))
            head[:240] = trace[:240]
            inside(head, n)
            result += bytes(head) + trace[240:]
        Path("new.sgy").write_bytes(result + behind)
        return st.from_segy("new.sgy", **kwargs)

    def exact(head, n):
        put(head, 240 + 161, ">f8", 1000.25 + 12.5 * n)  # its y is 0
        put(head, 185, ">i4", 100)
        head[472:480] = b"SEG00001"

    two, end = (3501, ">u1", 2), b"((SEG: EndText))"
    with inside(program):
        write_segy("plain.sgy", u, 4000, CDP_X=[20 * n for n in range(6)], TRACE_SAMPLE_COUNT=9)
        for changes, keys in (((), {}), ((two, (3507, ">i4", 1)), {"more": 1}), ((two, (3502, ">u1", 1), (3507, ">i2", 2), (3509, ">i2", 5)), {"more": 2}),
                              ((two, (3502, ">u1", 1), (3509, ">i2", 5)), {}), (((3507, ">i4", 7), (3521, ">i8", 9999), (3529, ">i4", 2)), {}),
                              (((3501, ">u1", 1), (3505, ">i2", -1)), {"before": (b"((SEG: Layout))", end)}),
                              ((two, (3505, ">i2", -1), (3507, ">i4", 1)), {"before": ("((SEG:ENDTEXT))".encode("cp037"),), "more": 1}),
                              ((two, (3521, ">u8", 10000)), {"before": (b"", b"")}), ((two, (3529, ">i4", 2)), {"behind": bytes(6400)}),
                              ((two, (3529, ">i4", -1), (3513, ">u8", 6)), {"behind": bytes(3200)}),
                              ((two, (3221, ">u2", 17), (3269, ">u4", 9)), {}), ((two, (3217, ">u2", 1), (3273, ">f8", 4000)), {})):
            model = read(*changes, **keys)
            check(same_bits(model.values[:, 0], u.T) and model.spacing == (20, 20, 4), f"{changes} {keys}: {model}")
        model = read(two, (3507, ">i4", 1), more=1, inside=exact)
        check(same_bits(model.values[:, 0], u.T) and model.spacing == (12.5, 12.5, 4) and model.origin == (1000.25, 0, 0), f"exact places: {model}")
        expect(["cut off"], read, two, more=1)  # not said at byte 3507
        write_segy("plain.sgy", u[:, :1], 4000, CDP_X=[20 * n for n in range(6)])
        Path("one.sgy").write_bytes(Path("plain.sgy").read_bytes()[:3224] + b"\0\1" + Path("plain.sgy").read_bytes()[3226:])  # as IBM's
        check(st.from_segy("one.sgy").values.shape == (1, 1, 6), "one sample a trace")
        write_segy("plain.sgy", u, 4000, CDP_X=[20 * n for n in range(6)], TRACE_SAMPLE_COUNT=9)
        expect(["EndText"], read, (3501, ">u1", 1), (3505, ">i2", -1))
        expect(["swapped in pairs"], read, two, (3297, ">u4", 0x2010403))
        expect(["8 to 9 samples"], read, inside=lambda head, n: put(head, 115, ">u2", 9 - (n == 3)))


def made(*index):
    """The velocities of tests/data's files."""
    x, y, z = np.meshgrid(*map(np.arange, index), indexing="ij")
    return (1500 + 100 * z + 3 * y + x).transpose(2, 1, 0)


@case
def segy_strangers(program):
    """Other programs' SEG-Y: lines at other bytes, feet, turned axes, little-endian, unsigned intervals; to a gather and back."""
    data = SOURCE / "tests/data"
    volume = ["convert", "model", data / "volume_in_feet.sgy", "m.h5", "--scale", 0.3048]
    with inside(program):
        said = tool(program, *volume, code=1).err
        check("--inline-byte 9 --crossline-byte 21 would make it 6 x 8" in said, said)
        tool(program, *volume, "--spacing", 25, 50, 12, code=1)
        volume += ["--inline-byte", 9, "--crossline-byte", 21]
        said = tool(program, *volume).out
        model = st.Field("m.h5:/vp")
        check(np.abs(model.values - made(8, 6, 12)).max() < 0.2 and "feet" in said, f"{model.values[:2]} {said}")
        check(np.allclose(model.spacing, 0.3048 * np.array([82, 164, 40]), rtol=2e-4) and model.origin == (457200, 213360, 0), said)
        check(np.allclose(model.attributes["azimuth"], (60, 330), atol=0.01) and "azimuth" in said, said)
        said = tool(program, *volume, "--x", 50, 150, "--z", 24, 140, "--config", "m.ini").out
        run = st.run("m.ini", {"time.steps": 40, "boundary.y": "periodic"}, quiet=True)
        check(np.allclose(run.origin, (457200 + 50, 213360, 24.4), atol=0.2) and run.shape == (10, 6, 5), f"{run} {run.origin}")
        said = tool(program, "convert", "segy", "m", "back.sgy").out
        back, local = st.segy.read_traces("back.sgy", 189, 193)[0], run.receivers.position - [457200, 213360, 0]
        a, b = np.radians((60, 330))
        east, north = (457200 + local[:, 0] * np.sin(a) + local[:, 1] * np.sin(b), 213360 + local[:, 0] * np.cos(a) + local[:, 1] * np.cos(b))
        check(np.allclose(back["group_x"] / 1000, east, atol=0.1) and np.allclose(back["group_y"] / 1000, north, atol=0.1), said)
        os.rename("m.h5", "n.h5")
        check("m.h5:/vp is not here" in tool(program, "convert", "segy", "m", "back.sgy").out, "no word of the lost azimuth")

        said = tool(program, "convert", "model", data / "section.sgy", "s.h5", "--x", 100, 200).out
        model = st.Field("s.h5:/vp")
        check(np.array_equal(model.values, made(30, 1, 20)[:, :, 8:17]) and "little-endian" in said, said)
        check(np.allclose(model.spacing, (12.5, 12.5, 40), atol=0.02) and np.allclose(model.origin, (4100, 9000, 80), atol=0.2), f"{said}")
        check(np.allclose(model.attributes["azimuth"], (140, 50), atol=0.1), f"{model.attributes}")


def columns(kind, **texts):
    """A record of SPS: texts that begin at these columns (c18="..."), right-aligned where they say how wide (c18=("...", 10))."""
    row = [" "] * 80
    for place, text in texts.items():
        text = f"{text[0]:>{text[1]}}" if isinstance(text, tuple) else str(text)
        row[int(place[1:]) - 1:int(place[1:]) - 1 + len(text)] = text
    return kind + "".join(row[1:]) + "\n"


def sps(first):
    """Two shots of three channels each, at 500 x 20 n; `first`: of the first revision, whose names are wider."""
    line, point, index, depth = ("c2", "c18", "c26", "c33") if first else ("c2", "c12", "c24", "c31")
    sources = [columns("S", **{line: "  10.00", point: (f"{100 + n}.00", 8), index: 1, depth: (4.5, 4)}, c47=(500.0, 9), c56=(20.0 * n, 10),
                       c66=(1.5, 6)) for n in (1, 2)]
    receivers = [columns("R", **{line: "7", point: (f"{n}.00", 8), index: 1}, c47=(600.0 + n, 9), c56=(5.0 * n, 10), c66=(-12.0, 6))
                 for n in range(1, 8)]
    fields = ("c8", 4, "c14", "c30", "c38", "c39", "c43", "c47", "c48", "c64", "c72", "c80") if first else \
             ("c8", 8, "c18", "c28", "c38", "c39", "c44", "c49", "c50", "c60", "c70", "c80")
    record, wide, s_line, s_point, s_index, begin, end, step, r_line, r_from, r_to, r_index = fields
    return sources, receivers, [columns("X", **{record: (30 + n, wide), s_line: "10", s_point: (f"{100 + n}.00", 8), s_index: 1,
                                                begin: (1, 4), end: (3, 4), step: 1, r_line: "7.00", r_from: (f"{n}.00", 8),
                                                r_to: (f"{n + 4}.00", 8), r_index: 1}) for n in (1, 2)]


@case
def survey_gathers(program):
    """Gathers of SEG-Y as strangers write them: dead traces, no places, repeats; 2D lines in any direction become distances."""
    need("segyio")
    base = {"FieldRecord": [11] * 6, "TraceIdentificationCode": [1] * 6, "SourceX": [100] * 6, "SourceY": [50] * 6,
            "GroupX": list(range(200, 350, 25)), "GroupY": [50] * 6}

    def shots(*more, **changes):
        """Of the six traces with changes (a value, or one a trace), and of `more` traces behind them."""
        heads = {key: list(np.broadcast_to(changes.get(key, base.get(key, 0)), 6)) + [one.get(key, 0) for one in more]
                 for key in {*base, *changes, *(key for one in more for key in one)}}
        write_segy("g.sgy", np.zeros((6 + len(more), 4)), **heads)
        return st.survey_from_segy("g.sgy")

    def twins(**changes):
        return [{key: values[n] for key, values in base.items()} | changes for n in range(6)]

    with inside(program):
        for code, what in ((2, "dead"), (3, "dummy"), (6, "auxiliary"), (10, "auxiliary"), (22, "auxiliary")):
            found = shots({"FieldRecord": 11, "TraceIdentificationCode": code})
            check(found.note == f"; traces left out: 1 {what}" and found[0].receivers[:, 0].tolist() == base["GroupX"], f"{code}: {found} {found.note}")
        for code in (-1, 0, 11, 25):
            check(len(shots(TraceIdentificationCode=code)[0].receivers) == 6, f"{code} is a receiver")
        expect(["only 5 dead, 1 dummy"], shots, TraceIdentificationCode=[2, 2, 2, 2, 2, 3])
        found = shots(*twins(FieldRecord=12, TraceIdentificationCode=2))
        check(len(found) == 1 and "1 shots have no other" in found.note, found.note)
        found = shots({"FieldRecord": 11}, *twins())
        check(len(found[0].receivers) == 6 and "1 without coordinates; 6 receivers left out" in found.note, found.note)
        found = shots(*twins(FieldRecord=12, EnergySourcePoint=5, SourceX=150), *twins(EnergySourcePoint=6, SourceX=300))
        check([shot.number for shot in found] == [0, 5, 6] and all(len(shot.receivers) == 6 for shot in found), "records used again")
        check("at 0 0: 1 sources" in shots(SourceX=0, SourceY=0).note, "one shot at 0 0")
        line = shots(*({"FieldRecord": 12 + n, "SourceX": 25 * n, "GroupX": 100 + 25 * n} for n in range(4)), SourceX=-25, SourceY=0, GroupY=0)
        check(len(line) == 5 and "at 0 0: 1 sources" in line.note, "a line that passes 0 0")
        well = shots(GroupX=0, GroupY=0, ReceiverGroupElevation=[-10 * n for n in range(6)])
        check(well[0].receivers[:, 2].tolist() == [0, 10, 20, 30, 40, 50], "a well at 0 0")
        for more, changes, words in ((twins(FieldRecord=12, SourceX=0, SourceY=0), {"SourceX": 0, "SourceY": 0}, "where the sources are: all at 0 0"),
                                     (twins(FieldRecord=12, SourceX=0, SourceY=0), {}, "source of record 12 is: at 0 0"),
                                     ([], {"SourceX": 0, "SourceY": 0, "GroupX": [500000 + n for n in range(6)]}, "source of record 0 is: at 0 0"),
                                     ([], {"GroupX": 0, "GroupY": 0}, "where the receivers are: all at 0 0"), ([], {"GroupX": 7}, "all in one place"),
                                     (twins(FieldRecord=12) + twins(SourceX=150), {}, "several places"), ([], {"CoordinateUnits": 2}, "angles")):
            expect([words], shots, *more, **changes)
        st.write_config("flat.ini", {"grid.nx": 100, "grid.ny": 1, "grid.nz": 9, "grid.dx": 20})
        for azimuth, origin, bend in ((90, (0, 0), 0), (0, (0, 0), 0), (33, (500000, 4000000), 0), (200, (0, 0), 0), (147, (500000, 4000000), 12)):
            ahead, left = st.places.directions([azimuth, azimuth - 90])
            at = 400 + 150 * np.arange(3)[:, None] + np.array([0, *range(50, 850, 50)])  # of a source, and of its receivers
            place = np.rint(100 * (origin + at[..., None] * ahead + bend * np.cos(at / 60)[..., None] * left)).astype(int)
            (sx, gx), (sy, gy) = ((np.repeat(p[:, 0], 16), p[:, 1:].ravel()) for p in np.moveaxis(place, -1, 0))
            write_segy("g.sgy", np.zeros((48, 4)), FieldRecord=np.repeat(range(1, 4), 16), SourceGroupScalar=-100, SourceX=sx, SourceY=sy, GroupX=gx, GroupY=gy)
            said = tool(program, "convert", "survey", "g.sgy", "s.txt", "--config", "flat.ini").out
            with h5py.File("s.h5") as file:
                got = np.array([file[f"000{n}"][:, 0] for n in (1, 2, 3)])
            first = np.array([float(line.split("'")[1].split("=")[-1].split()[0]) for line in open("s.txt")])
            far = re.search(r"up to (\S+) m beside the line", said)
            check(np.abs(np.abs(got - first[:, None]) - (at - at[:, :1])[:, 1:]).max() < 0.1 + 0.02 * bend, f"{azimuth}: {got} {first}")
            check(bool(far) == bool(bend) and (not far or abs(float(far[1]) - bend) < 0.2 * bend), said)
            check((azimuth == 90) != ("line to azimuth" in said) and (azimuth > 0 or np.allclose(first, at[:, 0])), f"{said} {first}")
        write_segy("g.sgy", np.zeros((9, 4)), FieldRecord=range(9), SourceX=np.arange(9) % 3 * 100, SourceY=np.arange(9) // 3 * 100, GroupX=50, GroupY=50)
        check("no line" in tool(program, "convert", "survey", "g.sgy", "s.txt", "--config", "flat.ini", code=1).err, "a patch as a line")


@case
def survey_geometry(program):
    """Sources and receivers of SEG-Y and SPS as a file of [survey] shots, which the program takes."""
    with inside(program):
        tool(program, "convert", "model", SOURCE / "tests/data/volume_in_feet.sgy", "m.h5", "--scale", 0.3048, "--inline-byte", 9,
             "--crossline-byte", 21, "--config", "m.ini")
        x, y, z = (float(c) for c in st.read_config("m.ini")["grid"]["origin"].split())
        Path("shots.txt").write_text("".join(
            f"'source.1.position={x + 30 + 20 * n} {y + 60} {z + 30}' 'receivers.line={x + 25} {y + 10 * n} {z + 20} {x + 150} {y + 9 * n} {z + 30} {5 + n}'\n"
            for n in range(3)))
        keys = ("time.steps=20", "boundary.y=periodic", "survey.shots=shots.txt", "output.final=off", "output.every=0")
        program.succeed("-q", "m.ini", *keys, "output.path=line")
        tool(program, "convert", "segy", "line", "all.sgy")
        said = tool(program, "convert", "survey", "all.sgy", "geo.txt", "--config", "m.ini").out
        check("3 shots, at most 7 receivers each, 3 sets of them in geo.h5" in said and "turned" in said, said)
        tool(program, "convert", "survey", "all.sgy", "it's a.txt", "--config", "m.ini")
        for shots, path in (("geo.txt", "again"), ("it's a.txt", "quoted")):
            program.succeed("-q", "m.ini", *keys, f"survey.shots={shots}", f"output.path={path}")
        for name in ("0001", "0002", "0003"):
            one, other, quoted = (st.open_run(f"{path}/{name}").receivers for path in ("line", "again", "quoted"))
            check(np.abs(one.position - other.position).max() < 2e-3 and np.abs(one.source_position - other.source_position).max() < 2e-3,
                  f"{name}: {one.position} {other.position}")
            check(np.array_equal(other.u, quoted.u), f"{name}: a name in quotes")
        for words in (("survey", "all.sgy", "all.sgy"), ("segy", "line", "line/0002.receivers.h5"), ("survey", "all.sgy", "geo.h5")):
            before = Path(words[-1]).read_bytes()
            tool(program, "convert", *words, code=1)
            check(Path(words[-1]).read_bytes() == before, f"{words}: written over")
        said = tool(program, "convert", "survey", "all.sgy", "near.txt", "--config", "m.ini", "--within").out
        check("3 shots" in said and "beyond" not in said, said)
        small = {**st.read_config("m.ini")}
        small["grid"] = {**small["grid"], "nx": "3"}
        st.write_config("small.ini", small)
        said = tool(program, "convert", "survey", "all.sgy", "near.txt", "--config", "small.ini", "--within").out
        check("2 shots, at most 2 receivers" in said and "1 shots lie beyond" in said, said)
        for first in (False, True):
            for name, lines in zip(("a.sps", "a.rps", "a.xps"), sps(first)):
                Path(name).write_text("H00 SPS format version\n" + "".join(lines))
            shots = st.survey_from_sps("a.xps", "a.sps", "a.rps")
            check([shot.number for shot in shots] == [31, 32] and shots[1].source.tolist() == [500, 40, 3], f"{shots}")
            check(shots[1].receivers.tolist() == [[602, 10, 12], [604, 20, 12], [606, 30, 12]], f"{shots[1].receivers}")
        said = tool(program, "convert", "survey", "a.sps", "a.rps", "a.xps", "sps.txt").out
        check("2 shots" in said and "taken as metres" in said, said)
        named = "H20 Description of grid units   "
        for heads, metres in ((named + "METERS", 1), ("H200Description of grid units   International Feet;", 0.3048),
                              (named + "km", 1000), ("H20 Grid units: US Survey Feet", 1200 / 3937),
                              (named + "N/A\nH201Factor to metre         0.5;", 0.5), ("H201Factor to metre             20.1168\n" + named + "CHAINS", 20.1168)):
            Path("a.rps").write_text(heads + "\n" + "".join(sps(True)[1]))  # one file says it of all
            shot = st.survey_from_sps("a.xps", "a.sps", "a.rps")[1]
            places = np.array([[500, 40, 3], [602, 10, 12], [604, 20, 12], [606, 30, 12]]) * metres
            check(np.allclose([shot.source, *shot.receivers], places), f"{heads}: {shot}")
        said = tool(program, "convert", "survey", "a.sps", "a.rps", "a.xps", "sps.txt").out
        check("lengths in CHAINS, of 20.1168 m" in said, said)
        for heads, words in (("DEGREES\nH201Factor to metre   1", "DEGREES"), ("CHAINS", "CHAINS"),
                             ("FEET\nH201Factor to metre   1.0", "'FEET', but a.rps:2"),
                             ("FEET\n" + named + "METRES", "'METRES', but a.rps:1"),
                             ("\nH201Factor to metre   0", "a factor to metre > 0")):
            Path("a.rps").write_text(named + heads + "\n" + "".join(sps(True)[1]))
            expect(["a.rps:", words], st.survey_from_sps, "a.sps", "a.rps", "a.xps")
        for name, lines in zip(("a.sps", "a.rps", "a.xps"), sps(True)):
            Path(name).write_text("".join(lines))
        tool(program, "convert", "survey", "a.sps", "a.rps", "a.xps", "sps.txt")
        check(Path("sps.txt").read_text().splitlines()[0] ==
              "source.1.position='500 20 3' receivers.positions=sps.h5:/0031 output.name=0031", Path("sps.txt").read_text())
        for name, lines in zip(("a.sps", "a.rps"), sps(False)):
            Path(name).write_text("H26 \x85\n" + "".join(lines), "latin-1")

        def relations(*places, text):
            """Shots of relations that have this text at these columns."""
            row = list(sps(False)[2][0])
            for place in places:
                row[place - 1:place - 1 + len(text)] = text
            Path("a.xps").write_text("".join(row))
            return st.survey_from_sps("a.xps", "a.sps", "a.rps")

        once = sps(False)[2]
        other = once[0][:59] + "    3.00" + once[0][67:69] + "    7.00" + once[0][77:]  # receivers 3 to 7 of the same record
        for lines, points, printed in ((once + once, (1, 3, 5), "; 6 repeated"), ([once[0], other], (1, 3, 5, 7), "; 2 repeated"),
                                    (once, (1, 3, 5), "")):
            Path("a.xps").write_text("".join(lines))
            shots = st.survey_from_sps("a.xps", "a.sps", "a.rps")
            check(shots[0].receivers.tolist() == [[600 + n, 5 * n, 12] for n in points], f"{printed}: {shots}")
            check(shots.note.endswith("receivers left out" if printed else "say none") and printed in shots.note, shots.note)
        for twice, words in ((7, None), (5, "a.xps:1: receiver 5 of line 7 is in several places")):
            moved = sps(False)[1][twice - 1].replace("60", "61", 1)
            Path("b.rps").write_text(moved)
            expect([words], st.survey_from_sps, "a.xps", "a.sps", "a.rps", "b.rps") if words else \
                check(st.survey_from_sps("a.xps", "a.sps", "a.rps", "b.rps")[0].source[0] == 500, "a point that no relation has")
        whole = relations(38, text="1    3    1")[0].receivers  # channels the other way round
        check(whole.tolist() == [[601, 5, 12], [603, 15, 12], [605, 25, 12]], f"channels 3 to 1: {whole}")
        for places, text, words in (((39, 44), "     ", "one channel for receivers 1 to 5"), ((8,), "     nan", "whole number, found 'nan'"),
                                    ((8,), "     1.5", "whole number, found '1.5'"), ((44,), " 9e15", "whole number, found '9e15'"),
                                    ((60,), "       inf", "number, found 'inf'")):
            expect([f"a.xps:1: expected a {words}" if "found" in words else f"a.xps:1: {words}"], relations, *places, text=text)
        for name, lines in zip(("a.sps", "a.rps", "a.xps"), sps(True)):
            Path(name).write_text("H00 SPS format version\n" + "".join(lines))
        Path("a.rps").write_text("".join(sps(True)[1][:5]))
        expect(["a.xps:3: receiver 6 of line 7"], st.survey_from_sps, "a.sps", "a.rps", "a.xps")
        expect(["no records of receivers"], st.survey_from_sps, "a.sps", "a.xps")
        Path("a.rps").write_text("Q 1\n")
        expect(["a.rps:1: no record of SPS"], st.survey_from_sps, "a.sps", "a.rps", "a.xps")


KWAVE = {"Nx": 40, "Ny": 36, "Nz": 32, "dx": 1e-3, "dy": 1e-3, "dz": 1e-3, "Nt": 90, "dt": 1e-7, "c0": 1500.0, "rho0": 1000.0,
         "pml_x_size": 0, "pml_y_size": 0, "pml_z_size": 0, "p0_source_flag": 0, "p_source_flag": 0, "nonlinear_flag": 0,
         "absorbing_flag": 0, "sensor_mask_type": 0}


def write_kwave(path, **changes):
    with h5py.File(path, "w") as file:
        for name, value in {**KWAVE, **changes}.items():
            value = np.asarray(value)
            file[name] = (value.reshape((1,) * (3 - value.ndim) + value.shape)).astype("f4" if value.dtype.kind == "f" else "u8")


def indices(*points):
    """As k-Wave counts: from 1, x fastest."""
    return [1 + x + 40 * (y + 36 * z) for x, y, z in points]


@case
def kwave(program):
    """k-Wave's input: p0 and medium bit for bit, a pressure source with the amplitude of the wave it sends, refusals."""
    rng = np.random.default_rng(7)
    c0 = rng.uniform(1400, 1600, (32, 36, 40)).astype(np.float32)
    p0 = rng.uniform(-1, 1, c0.shape).astype(np.float32)
    with inside(program):
        write_kwave("in.h5", c0=c0, p0_source_flag=1, p0_source_input=p0, pml_x_size=10, pml_z_size=8,
                    sensor_mask_index=indices((3, 4, 5), (39, 0, 31)))
        tool(program, "convert", "kwave", "in.h5", "k")
        run = st.run("k.ini", {"time.steps": 2, "time.dispersion": "kept", "output.every": 1}, quiet=True)
        check(same_bits(run.fields[0].values, p0) and same_bits(st.Field("k.c0.h5:/c0").values, c0), "p0 or c0")
        check(np.allclose(run.receivers.position, [[3e-3, 4e-3, 5e-3], [39e-3, 0, 31e-3]]), f"{run.receivers.position}")
        check(run.receivers.u[0].tolist() == [p0[5, 4, 3], p0[31, 0, 39]], "traces")
        faces = run.config["boundary"]
        check((faces["x_lo"], faces["y_hi"], faces["z_hi"], faces["width"]) == ("absorbing", "periodic", "absorbing", "10"), faces)

        # A mass source in free space: r p(r, t) = 3 h^3 / (4 pi dt) ds/dt(t - r/c), up to when the periodic image arrives.
        time = 1e-7 * np.arange(120)
        signal = 1e-3 * np.exp(-((time - 6e-6) / 1.7e-6)**2)
        write_kwave("in.h5", p_source_flag=1, p_source_mode=1, p_source_many=0, p_source_index=indices((12, 13, 14)),
                    p_source_input=signal[:, None], sensor_mask_type=1, sensor_mask_corners=[[17, 14, 15, 18, 14, 15]], Nt=150)
        st.write_config("s.ini", st.from_kwave("in.h5", "s"))
        run = st.run("s.ini", quiet=True)
        check(np.allclose(run.receivers.position[:, 0], [16e-3, 17e-3]), f"box: {run.receivers.position}")
        for place, trace in zip(run.receivers.position, run.receivers.u.T):
            r = np.linalg.norm(place - [12e-3, 13e-3, 14e-3])
            late = run.receivers.time - 0.5e-7 - r / 1500  # step n + 1 holds s[n] - s[n - 1], the slope half a step earlier
            slope = np.interp(late, time[:-1] + 0.5e-7, np.diff(signal) / 1e-7, 0, 0)
            expected = 3e-9 / (4 * np.pi * r * 1e-7) * slope
            error = np.abs(trace - expected).max() / np.abs(expected).max()
            check(error < 0.05, f"source: at {r:.4g} m off by {100 * error:.1f} %")
        for deep, corners in ((32, [[3, 4, 5, 4, 6, 6], [1, 1, 1, 2, 1, 1]]), (1, [[3, 4, 1, 4, 6, 1]])):
            write_kwave("in.h5", sensor_mask_type=1, sensor_mask_corners=corners, Nz=deep)
            st.from_kwave("in.h5", "k")
            ranges = [[range(low - 1, high) for low, high in zip(box, box[3:])] for box in corners]
            expected = np.array([(x, y, z) for xs, ys, zs in ranges for z in zs for y in ys for x in xs]) * 1e-3  # x fastest
            with h5py.File("k.sensor.h5") as file:
                found = file["position"][...]
            check(np.allclose(found, expected if deep > 1 else expected[:, [0, 2, 1]]), f"{corners}: {found}")
        losses = {"absorbing_flag": 1, "alpha_power": 1.0}
        for zero in (0.0, np.zeros(c0.shape)):
            write_kwave("in.h5", **losses, alpha_coeff=zero)
            keys = st.from_kwave("in.h5", "k")
            check(keys["medium.velocity"] == 1500 and "medium.absorption" not in keys, f"no losses: {keys}")
        for power in (1.0, 0.96, 1.001, 1.04, 1.05):
            write_kwave("in.h5", absorbing_flag=1, alpha_coeff=0.75, alpha_power=power)
            if power < 1.05:
                expect(["in.h5: alpha_power", "within 0.05 of 1"], st.from_kwave, "in.h5", "k")
                continue
            keys = st.from_kwave("in.h5", "k")
            omega = 2 * np.pi * keys["medium.reference_frequency"]
            law = 1 / (1 / 1500 + 75 / 8.685889638 * (omega / 2e6 / np.pi)**power * np.tan(np.pi * power / 2) / omega)
            check(abs(keys["medium.velocity"] / law - 1) < 0.003, f"{keys} {law}")

        pulse, u = 1e-5 * np.sin(0.4 * np.arange(60.0))[:, None], {}
        source = {"p_source_flag": 1, "p_source_mode": 1, "p_source_many": 0, "p_source_input": pulse,
                  "p_source_index": indices((12, 13, 14))}
        field = {"p0_source_flag": 1, "p0_source_input": p0}
        lost = np.where(np.arange(60) == 0, 1, pulse.T).T  # k-Wave sets the initial pressure over the first sample
        for name, changes in (("p0", field), ("p", source), ("both", {**field, **source, "p_source_input": lost})):
            write_kwave("in.h5", **changes, sensor_mask_index=indices((20, 14, 14), (9, 9, 9)), Nt=60)
            keys = st.from_kwave("in.h5", "k")
            u[name] = st.run({**keys, "time.dispersion": "kept"}, quiet=True).receivers.u
        check("sample n of a trace is k-Wave's n" in keys.note, keys.note)
        error = np.abs(u["both"][:60] - u["p0"][:60] - u["p"][1:]).max()
        check(error < 1e-5 and np.abs(u["p"]).max() > 0.02 and np.ptp(u["p0"]) > 0.5, f"p0 and p: {error}")
        for word, changes in (("nonlinear_flag", {"nonlinear_flag": 1}), ("/absorbing_flag is 3", {"absorbing_flag": 3}),
                              ("/alpha_power has 2 values", {**losses, "alpha_power": [1.1, 1.2], "alpha_coeff": 1.0}),
                              ("expected six a box", {"sensor_mask_type": 1, "sensor_mask_corners": [1, 1, 1, 2]}), ("/dt is 0, expected", {"dt": 0.0}), ("/Nt is 0, expected", {"Nt": 0}),
                              ("NaN or Inf in /c0", {"c0": np.where(c0 == c0.max(), np.nan, c0)}), ("40 x 1 x 32 points", {"Ny": 1}),
                              ("/c0 has 46080 values, the grid 42624", {"c0": c0, "Nx": 37}),
                              *(("numbers from", {"sensor_mask_index": indices((3, 4, 5)) + [n]}) for n in (0, 40 * 36 * 32 + 1)),
                              *(("/p_source_index has numbers from", {"p_source_flag": 1, "p_source_mode": 1, "p_source_index": [n]})
                                for n in (0, 40 * 36 * 32 + 1)),
                              *(("box", {"sensor_mask_type": 1, "sensor_mask_corners": [box]})
                                for box in ([0, 1, 1, 2, 2, 2], [1, 1, 1, 41, 2, 2], [3, 1, 1, 2, 2, 2]))):
            write_kwave("in.h5", **changes)
            expect(["in.h5", word], st.from_kwave, "in.h5", "k")
        for sizes, alphas, faces, width, printed in (((10, 8, 0), (2, 2, 2), "aap", 10, "layers of 10 8 0 points along x y z: all have 10"),
                                                  ((9, 9, 9), (2, 0, 2), "apa", 9, ""), ((5, 5, 5), (0, 0, 0), "ppp", None, "")):
            write_kwave("in.h5", **{f"pml_{a}_size": n for a, n in zip("xyz", sizes)}, **{f"pml_{a}_alpha": float(n) for a, n in zip("xyz", alphas)})
            keys = st.from_kwave("in.h5", "k")
            check([keys[f"boundary.{a}"][0] for a in "xyz"] == list(faces) and keys.get("boundary.width") == width, f"{sizes} {keys}")
            check(keys.note == printed, f"{keys.note}")
        for points, size, shape in (((40, 36, 1), (40, 1, 36), (36, 1, 40)), ((40, 1, 1), (1, 1, 40), (40, 1, 1))):  # 2D, 1D
            names, part = dict(zip(("Nx", "Ny", "Nz"), points)), np.s_[0, 0] if points[1] == 1 else np.s_[0]
            write_kwave("in.h5", **names, c0=c0[part], p0_source_flag=1, p0_source_input=p0[part], dx=2e-3,
                        sensor_mask_index=[7 + 1, 40 * (points[1] - 1) + 3 + 1])
            said = tool(program, "convert", "kwave", "in.h5", "k").out
            run = st.run("k.ini", {"time.steps": 1, "time.dispersion": "kept"}, quiet=True)
            check(run.shape == shape and "x becomes z" in said or "y becomes z" in said, f"{run} {said}")
            corner = run.receivers.u[0].tolist()
            check(same_bits(st.Field("k.c0.h5:/c0").values, c0[part].reshape(shape)) and
                  corner == [p0[part].flat[7], p0[part].flat[40 * (points[1] - 1) + 3]], f"{corner}")
        disc = [(x, y, 14) for y in range(36) for x in range(40)]  # an imposed one: a value a point and step, for 30 of 40 steps
        imposed = rng.uniform(-1, 1, (30, len(disc)))
        write_kwave("in.h5", p_source_flag=30, p_source_mode=0, p_source_many=1, p_source_index=indices(*disc), Nt=40,
                    p_source_input=imposed / (3 * 1500.0**2), sensor_mask_index=indices(*disc[::7]))
        u = st.run({**st.from_kwave("in.h5", "k"), "time.dispersion": "kept"}, quiet=True).receivers.u
        check(np.allclose(u[1:31], imposed[:, ::7], atol=1e-6) and np.ptp(u[31:]) > 0 and np.isfinite(u).all(), "an imposed source")
        dims = {"p_source_flag": 90, "p_source_mode": 2, "p_source_many": 0, "p_source_index": indices((12, 13, 14)),
                "p_source_input": np.sin(np.arange(90.0))[:, None]}
        write_kwave("in.h5", **dims)
        scaled, given = st.from_kwave("in.h5", "k"), st.from_kwave("in.h5", "l", "Pa")
        check("kg/m3" in scaled.note and f"{2.25e7:.4g} Pa" in scaled.note and "1 Pa" in given.note, f"{scaled.note} {given.note}")
        said = tool(program, "convert", "kwave", "in.h5", "l", "--source-in", "Pa", STENCIL=program.path).out
        tables = [h5py.File(f"{name}.source.h5")["signal"][...] for name in "kl"]
        check(np.allclose(tables[0], tables[1] * 1500 * 1e-3 * 3 / 2 / 1e-7, rtol=1e-5) and "1 Pa" in said, "Pa")
        for writer, share in (("k-Wave 0.5", 1), ("k-Wave 0.6.2", (1 + 1 / 2 + 1 / 4) / 3)):  # cells that are no cubes
            write_kwave("in.h5", **dims, dy=2e-3, dz=4e-3)
            with h5py.File("in.h5", "a") as file:
                file.attrs["created_by"] = writer
            st.from_kwave("in.h5", "l", "Pa")
            check(np.allclose(h5py.File("l.source.h5")["signal"][...], share * tables[1], rtol=1e-5), f"Pa of {writer}")
        check(str(program.path) in said or "np 2 stencil " in said, said)
        with h5py.File("empty.h5", "w"):
            pass
        said = tool(program, "convert", "kwave", "empty.h5", "k", code=1).err
        check("empty.h5: no dataset /Nx" in said, said)


@case
def kwave_strangers(program):
    """Files of both of k-wave-python's writers: the amplitude that each means, beside traces of its own solver."""
    with inside(program):
        for name, printed in (("kwave_pascals", "in Pa, by its writer: its greatest is 2000 Pa"),
                           ("kwave_density", "in kg/m3 a step, by its writer: its greatest is 2000 Pa"),
                           ("kwave_losses", "losses as at 1.25e+05 Hz")):
            path = SOURCE / f"tests/data/{name}.h5"
            keys = st.from_kwave(path, "k")
            keys["time.dispersion"] = "kept"  # the traces end inside a pulse
            run = st.run(keys, quiet=True)
            with h5py.File(path) as file:
                own = file["own_traces"][...]
            error = np.abs(run.receivers.u[1:] - own).max() / np.abs(own).max()
            check(printed in keys.note and error < (0.03 if name == "kwave_losses" else 0.012), f"{name}: {keys.note}, differs by {100 * error:.2f} %")


@case
def tools(program):
    """Every tool has --help, and its mistakes are one line; a model of one's own becomes a gather with three commands."""
    for path in (SOURCE / "jobs").glob("*.*"):
        if path.suffix in (".py", ".sh") and os.access(path, os.X_OK) and path.name != "setup.sh":  # which is sourced
            result = program.finish([*([sys.executable, "-B"] if path.suffix == ".py" else []), path, "--help"])
            check(result.code == 0 and path.name in result.out and not result.err, f"{path.name} --help: {result}")
    tool(program, "make_model", "m.h5", 41, 31, 36, "--config", "m.ini")
    tool(program, "make_model", "section.h5", 41, 1, 36, "--config", "section.ini")
    tool(program, "make_model", "well.h5", 1, 1, 36, "--config", "well.ini")
    check(st.Field(f"{program.folder}/m.h5:/vp").values.shape == (36, 31, 41), "make_model's shape")
    np.save(program.folder / "own.npy", np.linspace(1.5, 3, 60 * 50, dtype=np.float32).reshape(60, 50))
    own = ["convert", "model", "own.npy", "own.h5"]
    said = tool(program, *own, "--axes", "xz", "--spacing", 10, 10, 10, "--scale", 1000, "--x", 50, 500, "--config", "own.ini").out
    check("46 x 1 x 50 points" in said and "Ricker" in said, said)
    check("km/s" in tool(program, *own, "--axes", "xz", "--spacing", 10, 10, 10).out, "km/s passed for m/s")
    tool(program, *own, "--axes", "xz", "--spacing", 10, 10, 10, "--scale", 1000, "--config", "own.ini")
    np.save(program.folder / "rho.npy", np.linspace(1, 2.5, 60 * 50, dtype=np.float32).reshape(60, 50))
    for how, greatest in ((("--density", "rho.npy"), 2500), (("--gardner",), 310 * 3000**0.25)):
        said = tool(program, "convert", "model", "own.npy", "heavy.h5", "--axes", "xz", "--spacing", 10, 10, 10, "--scale", 1000,
                    *how, "--config", "heavy.ini").out
        check(abs(st.Field(f"{program.folder}/heavy.h5:/rho").values.max() - greatest) < 0.1 and "kg/m3" in said, said)
        check("density 1" in program.succeed("-n", "heavy.ini").out, "the shot has no density")
    tool(program, "convert", "model", "own.npy", "heavy.h5", "--axes", "xz", "--spacing", 10, 10, 10, "--gardner", "--density", "rho.npy", code=1)
    bad = {"zeros": np.r_[[0.0], np.full(59, 2e3)], "nan": np.r_[[2e3], np.full(59, np.nan)], "complex": np.ones(60) * 1j, "none": np.ones(0)}
    for label, values in bad.items():
        np.save(program.folder / f"{label}.npy", values.reshape(-1, 6))
        for args in ([f"{label}.npy"], ["own.npy", "--density", f"{label}.npy"]):
            said = tool(program, "convert", "model", *args, "bad.h5", "--axes", "xz", "--spacing", 10, 10, 10, code=1)
            check(f"{label}.npy: expected " in said.err and not (program.folder / "bad.h5").exists(), said)
    tool(program, "convert", "model", "own.npy", "own.npy", "--axes", "xz", "--spacing", 10, 10, 10, code=1)
    check(np.load(program.folder / "own.npy").shape == (60, 50), "a model was written over what was read")
    tool(program, *own[:3], "far.h5", "--axes", "xz", "--spacing", 10, 10, 10, "--resample", 600, 10, 10, code=1)
    for name in ("m", "own", "section", "well"):
        program.succeed("-q", f"{name}.ini", "output.every=50", np=2)
        if importlib.util.find_spec("matplotlib"):
            tool(program, "plot", "gather", f"{name}.receivers.h5")
            tool(program, "plot", "animation", name)
            check((program.folder / f"{name}.receivers.png").stat().st_size > 5000, "no picture")
            said = tool(program, "plot", f"{name}.00000000.hdf").out
            check(("slice y" in said) == (name == "m") and (program.folder / f"{name}.00000000.png").exists(), said)
    results = [{"equation": e, "kernel": k, "supported": True, "gpts": g, "fraction_of_copy": g / 600}
               for e in ("jacobi", "wave") for k, g in (("naive", 200), ("bulk_tensor", 500))]
    (program.folder / "kernels.json").write_text(json.dumps({"grid": [64, 48, 32], "gpu": "GPU", "copy_gbs": 4200, "results": results}))
    if importlib.util.find_spec("matplotlib"):
        tool(program, "plot_kernels", "kernels.json", "--out", "kernels.png")
        check((program.folder / "kernels.png").stat().st_size > 5000, "no picture")
    raw = [*own[:2], "m.h5", "b.h5", "--shape", 2, 2, 2, "--spacing", 1, 1, 1]
    for words, args in ((["--spacing"], own), (["--spacing 1.0 1.0 0.0:"], [*own, "--spacing", 1, 1, 0]),
                        (["--resample 1.0 nan 1.0:"], [*own, "--spacing", 1, 1, 1, "--resample", 1, "nan", 1]),
                        (["foo: no type"], [*raw, "--dtype", "foo"]), (["axes zyx"], [*own, "--spacing", 1, 1, 1]),
                        (["no such"], ["convert", "kwave", "x", "k"]),
                        (["a.raw: cannot read: No such file or directory\n"],
                         ["convert", "model", "a.raw", "b.h5", "--spacing", 1, 1, 1, "--shape", 2, 2, 2]),
                        (["no/b.ini: cannot write: No such file or directory\n"],
                         [*own, "--axes", "xz", "--spacing", 10, 10, 10, "--config", "no/b.ini"]),
                        (["no/b.h5: cannot write: No such file or directory\n"],
                         [*own[:3], "no/b.h5", "--axes", "xz", "--spacing", 10, 10, 10]),
                        (["--x 0 9000", "590"], [*own, "--axes", "xz", "--spacing", 10, 10, 10, "--x", 0, 9000])):
        said = tool(program, *args, code=1).err
        check("convert.py: error:" in said and all(word in said for word in words), said)


def drawing(plot):
    """A function that draws a command line of plot.py and returns the figure and its texts, all of which lie on the
    canvas."""
    def draw(*words):
        args = plot.parser_of_commands().parse_args([*map(str, words), "--out", "x.png"])
        args.run(args)
        figure = plot.plt.gcf()
        figure.canvas.draw()
        texts = [figure._suptitle, figure._supylabel]
        for axes in figure.axes:
            texts += [axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label, *(axes.get_legend().get_texts() if axes.get_legend() else [])]
        texts = [text for text in texts if text and text.get_visible() and text.get_text().strip()]
        for text in texts:
            box, canvas = text.get_window_extent(), figure.bbox
            check(box.x0 > -2 and box.y0 > -2 and box.x1 < canvas.x1 + 2 and box.y1 < canvas.y1 + 2, f"{words}: cut off: {text.get_text()}")
        said = "\n".join(text.get_text() for text in texts).replace("\xa0", " ").replace("\n", " ")
        plot.plt.close(figure)
        return figure, said
    return draw


@case
def pictures(program):
    """What pictures show and say: zero as one colour, receivers as lines, by number or as curves, wells, sources, units, peaks."""
    need("matplotlib")
    import plot
    draw = drawing(plot)
    base = program.config({**WAVE, "output.every": 60, "boundary.all": "absorbing", "boundary.width": 4})
    x, with_many = np.linspace(101, 119, 13), [(2.0, 6.5), (0.0, 20.0), (9.0, 6.5)]
    places = {"one": [(a, 0, 6.5) for a in x], "three": [(a, y, z) for y, z in with_many for a in x[::-1]],
              "patch": [(a, y, 6.5) for y in np.arange(-5, 20, 2) for a in x], "few": [(101, 0, 6.5), (115, 3, 9)],
              "well": [(110, 0, z) for z in np.arange(5.0, 60)], "oblique": [(101 + i, 0.5 * i, 6 + i) for i in range(15)],
              "uneven": [(a, 0, 6.5) for a in np.geomspace(101, 119, 12)]}
    with inside(program):
        for name, points in places.items():
            st.run(base, {"receivers.line": "", "receivers.positions": st.write_positions("r.h5", points), "output.path": name}, quiet=True)
            figure, said = draw("gather", f"{name}.receivers.h5")
            panels = [axes for axes in figure.axes if "receiver" in axes.get_xlabel() + axes.get_ylabel() + axes.get_title(loc="left")]
            labels = {"patch": "receiver number", "oblique": "distance from the first", "well": "receiver depth z (m)", "few": "receiver at"}
            check(len(panels) == {"three": 3, "few": 2}.get(name, 1) and labels.get(name, "receiver x (m)") in said, f"{name}: {said}")
            check("source at x = 110.25, y = 0.5, z = 20 m, ricker of 100 Hz" in said and f"{len(points)} receivers" in said, f"{name}: {said}")
            printed = {"long_name": "gradient of the misfit with respect to the velocity", "units": "s/m"}
            check(plot.label_of(printed, "velocity") == printed["long_name"], plot.label_of(printed, "velocity"))
            check(plot.label_of(printed, "image") == f"image: {printed['long_name']}", plot.label_of(printed, "image"))
            if name == "well":
                check(panels[0].get_xlabel().startswith("time") and panels[0].yaxis_inverted(), "a well's depth")
            if name in ("patch", "three"):
                check(panels[0].get_images()[0].get_interpolation() == ("nearest" if name == "patch" else "bilinear"), f"{name}: a smear")
            if name == "three":
                traces = st.Receivers("three.receivers.h5").u * np.linspace(0, 1, 61)[::3, None]
                shown = [np.asarray(axes.get_images()[0].get_array()) for axes in panels]
                order = [np.flatnonzero([(y, z) == wanted for _, y, z in places["three"]])[::-1] for wanted in sorted(with_many)]
                check(all(np.allclose(a, traces[:, b]) for a, b in zip(shown, order)), "lines mixed up")
        colors = plot.colors_of("wave", [np.array([-1.0, 1.0])], None)
        tones = {plot.plt.get_cmap(cmap, plot.LEVELS)(plot.matplotlib.colors.Normalize(-1, 1)(value))
                 for cmap in ("gray_r", "RdBu_r") for value in (-1e-10, 0, 1e-10)}
        check(len(tones) == 2 and colors["cmap"].N % 2 == 1, f"nearly zero has other colours than zero: {tones}")
        model = st.write_model("vp.h5", np.full((30, 22, 40), 1500) + np.arange(30)[:, None, None], spacing=(1, 1.5, 2), origin=(100, -7, 3))
        last = "one.00000060.hdf"
        figure, said = draw("slice", last, "--model", model)
        check(all(w in said for w in ("velocity (m/s)", "y = 9.5 m", "step 60", "100 Hz", "from -")) and len(figure.axes) == 3, said)
        check(not re.search("[*]", "".join(str(line.get_marker()) for line in figure.axes[0].lines)), "a source elsewhere is drawn")
        figure, said = draw("slice", last, "--index", 5, "--size", 5, 4, "--dpi", 50, "--title", "my own", "--clip", 100)
        marks = [line.get_marker() for line in figure.axes[0].lines]
        check("*" in marks and "v" in marks and marks.count("None") == 4 and "my own" in said and "from -" not in said, f"{marks} {said}")
        check(figure.get_size_inches().tolist() == [5, 4] and plot.plt.imread("x.png").shape[:2] == (200, 250), "size, dpi")
        st.run(base, {"output.path": "part", "output.box": "102 131 -7 24 3 41", "output.stride": "2 1 2"}, quiet=True)
        figure, _ = draw("slice", "part.00000060.hdf", "--index", 5)
        edges = [(line.get_xdata()[0], line.get_ydata()[0]) for line in figure.axes[0].lines if line.get_marker() == "None"]
        values = np.random.default_rng(3).uniform(1500, 2500, (30, 22, 40)).astype("f4")
        lump = st.write_model("lump.h5", values, spacing=(1, 1.5, 2), origin=(100, -7, 3))
        below = draw("slice", "part.00000060.hdf", "--index", 5, "--model", lump)[0].axes[0].get_images()[0].get_array()
        check(same_bits(below.data, values[0:20:2, 5, 2:32:2]), f"of a model other points are drawn beneath a part: {below.shape}")
        tool(program, "plot", "slice", "part.00000060.hdf", "--model", st.write_model("small.h5", values[1:]), code=1)
        check({x for x, _ in edges} >= {104, 135} and {z for _, z in edges} >= {11, 53}, f"layers of a part of the grid begin at {edges}")
        figure, said = draw("slice", last, "--compare", "one.00000000.hdf")
        legend = next(axes.get_legend() for axes in figure.axes if axes.get_legend())
        check(legend.get_window_extent().y1 <= legend.axes.get_window_extent().y0, "the legend covers the curves")
        with h5py.File("bare.h5", "w") as file:
            file["u"] = np.random.default_rng(1).random((20, 3000, 1))
        check("(points)" in draw("slice", "bare.h5")[1], "points as metres")
        wide = {"grid.nx": 40, "grid.ny": 1, "grid.dx": 500, "grid.dz": 500, "grid.dy": None, "grid.origin": "0 0 0", "source.1.position": "9000 0 5000",
                "source.1.f0": 0.5, "receivers.line": "0 0 5000 19500 0 5000 9", "output.path": "wide"}
        st.run(program.config({**WAVE, **wide}), quiet=True)
        for said in (draw("slice", "wide.00000060.hdf")[1], draw("gather", "wide.receivers.h5")[1]):
            check("source at x = 9, z = 5 km" in said and "x (km)" in said and "y =" not in said and "(m)" not in said, said)
        (program.folder / "line.txt").write_text("'source.1.position=105 0 20'\n'source.1.position=112 0.5 20' source.1.f0=90\n")
        shots = [program.config({**WAVE, "source.1.position": None, "time.dt": 1e-4, "output.final": "off", "output.every": 0}), "survey.shots=line.txt"]
        program.succeed("-q", *shots, "output.path=data")
        program.succeed("-q", *shots, "medium.velocity=1600", "output.path=sum", "gradient.observed=data/{name}.receivers.h5:/u")
        figure, said = draw("slice", "sum.gradient.h5:/velocity", "--index", 5)
        check("2 sources" in said and any(len(line.get_xdata()) == 2 for line in figure.axes[0].lines if line.get_marker() == "*"), f"a sum: {said}")
        st.run(program.config({"output.path": "plain"}), quiet=True)
        said = draw("slice", "plain.00000003.hdf")[1]
        check("step 3" in said and "t =" not in said, f"seconds of jacobi: {said}")
        heat = {key: value for key, value in WAVE.items() if not key.startswith("source")}
        heat.update({"equation.type": "heat", "initial.u": "gaussian", "output.path": "heat"})
        st.run(program.config(heat), quiet=True)
        st.run(program.config({**heat, "receivers.line": "101 0 6.5 119 0 6.5 12", "output.path": "heats"}), quiet=True)
        for name in ("heat", "heats"):
            with h5py.File(f"{name}.receivers.h5", "a") as file:
                check(file["u"].attrs["long_name"] in (b"temperature", "temperature"), f"{name}: long_name")
                file["u"].attrs["long_name"] = "salinity"  # of an equation that plot.py does not know
            check("salinity u" in draw("gather", f"{name}.receivers.h5")[1], name)

        field, rng = st.Field(last), np.random.default_rng(2)
        for shape, names in (((30, 22, 40), ("max", "min", "rms")), ((30, 1, 40), ("rms",)), ((30, 22, 40), ())):
            dft = rng.standard_normal((2, *shape, 2)).astype("f4")
            with h5py.File("m.maps.hdf", "w") as file:
                file.attrs.update({key: field.attributes[key] for key in ("config", "equation", "dt")})
                for name in names:
                    values = rng.standard_normal(shape).astype("f4")
                    file[name] = values if name == "min" else np.abs(values)
                file["dft"], file["frequency"] = dft, [50.0, 75.0]
                file["x"], file["y"], file["z"] = 100 + np.arange(40.0), -7 + 1.5 * np.arange(shape[1]), 3 + 2 * np.arange(30.0)
            figure, said = draw("maps", "m.maps.hdf", "--clip", 99)
            check(all(word in said for word in (*names, "amplitude, 50 Hz", "phase, 75 Hz", "(m)")), said)
            if "max" in names:
                least = [axes.get_images()[0].get_clim()[0] if axes.get_images() else axes.get_xlim()[0] for axes in
                         draw("slice", "m.maps.hdf:/max", "--model", lump)[0].axes]
                check(least[0] >= 1000 and 0 in least[1:], f"a map without a sign over a model: limits {least}")
            plane = dft[1, :, shape[1] // 2]
            phase = next(axes for axes in figure.axes if "phase, 75" in axes.get_title()).get_images()[0].get_array()
            there = ~np.ma.getmaskarray(phase)
            check(np.allclose(phase[there], np.degrees(np.arctan2(plane[..., 1], plane[..., 0]))[there], atol=1e-3) and there.mean() > 0.9, "phase")
        check("50 Hz" in tool(program, "plot", "maps", "m.maps.hdf").out and (program.folder / "m.maps.png").exists(), "maps")
        check("no maps" in tool(program, "plot", "maps", last, code=1).err and "--dpi" in tool(program, "plot", last, "--dpi", 0, code=1).err, "errors")


@case
def packages(program):
    """A Python that lacks what a tool needs: one line that says what to install, with the names of Debian and of pip."""
    cure = re.compile(r"error: .* has no .*: (apt install python3-\w+.* pip install \w+|start it with)")
    for name in NEED_PACKAGES:
        result = program.finish([sys.executable, "-B", "-S", SOURCE / f"jobs/{name}.py"])  # -S: without packages
        lines = result.err.splitlines()
        check(result.code == 1 and len(lines) == 1 and cure.search(lines[0]), f"{name}: {result}")


@case
def former_name(program):
    """stencil_io is stencil.io, with its modules."""
    script = """import stencil_io as st, stencil.io
from stencil_io.files import Field
print(st is stencil.io and Field is stencil.io.Field)"""
    result = program.finish([sys.executable, "-B", "-c", script], env={"PYTHONPATH": str(SOURCE / "jobs")})
    check(result.out == "True\n", f"{result}")


@case
def notebooks(program):
    """The notebooks run from their first cell to their last, and are kept without output."""
    paths = sorted((SOURCE / "jobs/notebooks").glob("*.ipynb"))
    check({path.stem for path in paths} == {"gradient", "heat", "inversion", "shot"}, f"{paths}")
    for path in paths:
        text = path.read_text()
        check('"output_type"' not in text and '"execution_count": null' in text, f"{path.name} holds output")
    run_notebook(program, "heat")
    run_notebook(program, "shot")


if __name__ == "__main__":
    main()
