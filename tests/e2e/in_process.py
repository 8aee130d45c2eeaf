#!/usr/bin/env python3
"""The package stencil: shots and gradients in this process, beside the program's.

usage: in_process.py --list | in_process.py CASE STENCIL MPIEXEC
"""
import gc
import importlib.util
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import warnings
import weakref
import zipfile
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import ENVIRONMENT, SOURCE, case, check, main, np, run_notebook, same_bits, skip

sys.path.insert(0, str(SOURCE / "python"))
if np:
    import stencil as st
SHAPE = 30, 40
PLACES = [(x, 25.0) for x in np.arange(33.0, 350, 31)] if np else []
KEYS = {"device.backend": "host", "device.threads": 2, "device.kernel": "simd"}


def in_process(function):
    """A case that uses the library of the program's own build."""
    def run(program):
        os.environ.update(ENVIRONMENT, STENCIL=program.path, MPIRUN=program.mpiexec, TMPDIR=str(program.root),
                          STENCIL_LIBRARY=str(Path(program.path).with_name("libstencil.so")))
        os.chdir(program.folder)
        function(program)
    run.__name__ = function.__name__
    return case(run)


def model(shape=SHAPE, seed=1):
    """Smooth random velocities, float32."""
    values = np.random.default_rng(seed).uniform(1500, 2500, shape)
    for axis in range(len(shape)):
        values = (values + np.roll(values, 1, axis) + np.roll(values, -1, axis)) / 3
    return values.astype("f4")


def simulation(**changes):
    return st.Simulation(**{"shape": SHAPE, "spacing": 10, "time": 0.3, "layers": 6, "keys": KEYS, **changes})


def shots(count=2, signal=None):
    return [st.Shot((60.0 + 71 * i, 33.0), st.ricker(14) if signal is None else signal, PLACES) for i in range(count)]


def refused(words, code, call, *args, **kwargs):
    """An Error of one line with these words and this code."""
    try:
        call(*args, **kwargs)
    except st.Error as error:
        check("\n" not in str(error) and all(word in str(error) for word in words) and code in (None, error.code),
              f"expected {words} and code {code}: {error.code} {error}")
        return
    raise AssertionError(f"{args} {kwargs}: expected an error with {words}")


def alike(one, other, what):
    check(len(one) == len(other) and all(same_bits(np.asarray(a), np.asarray(b)) for a, b in zip(one, other)), f"{what}: other bits")


def as_the_program(what, own, velocity, ranks=1, **media):
    """Traces of a first model and a gradient of a second one, whose dt and layers are the first one's, have the program's bits."""
    keys = {**KEYS, **own.pop("keys", {})}
    here, there = simulation(**own, keys=keys), simulation(**own, keys=keys, ranks=ranks)
    own_shots = media.pop("shots", shots(3))
    data = [sim.forward(velocity, own_shots, **media) for sim in (here, there)]
    alike(*data, f"{what}: traces")
    check(np.abs(data[0][0]).max() > 0 and here.dt == there.dt and same_bits(here.times, there.times), f"{what}: facts")
    found = [sim.gradient(0.98 * velocity, own_shots, observed=data[0], of=("velocity", "signals", "initial", "image"), **media)
             for sim in (here, there)]
    for name in ("velocity", "initial", "image", "illumination"):
        alike(*([getattr(r, name)] for r in found), f"{what}: {name}")
        check(getattr(found[0], name).shape == velocity.shape and np.abs(getattr(found[0], name)).max() > 0, f"{what}: {name}")
    alike(*(r.signals for r in found), f"{what}: signals")
    alike(*(r.traces for r in found), f"{what}: traces of the gradient")
    alike(*([r.misfits] for r in found), f"{what}: misfits {found[0].misfits} {found[1].misfits}")


@in_process
def bits(_):
    """The program's bits in 2D, where shots step together."""
    as_the_program("layers inside, a free surface", {"free_surface": True, "outside": False}, model(), ranks=2)
    as_the_program("layers outside", {}, model())
    as_the_program("density", {}, model(), density=model(seed=2))
    loss = {"keys": {"medium.reference_frequency": 14}}
    as_the_program("absorption", loss, model(), quality=model(seed=3) / 30)


@in_process
def bits_3d(_):
    """The program's bits in 3D and in 1D, of samples and of several sources, with gaps and weights."""
    volume = model((14, 16, 18))
    signal = np.random.default_rng(4).standard_normal((400, 2)).cumsum(0).astype("f4")
    places = [(50.0, 70.0, 40.0), (95.0, 60.0, 40.0)]
    both = [st.Shot(places, signal, [(40.0, 80.0, 55.0), (100.0, 80.0, 55.0)]), st.Shot(places[:1], signal[:, :1], [(60.0, 60.0, 60.0)])]
    as_the_program("3D", {"shape": volume.shape, "time": 0.1, "layers": 4}, volume, shots=both)
    line = model((60,))
    as_the_program("1D", {"shape": line.shape}, line, shots=[st.Shot(100.0, st.ricker(14), [[300.0], [420.0]])])
    here, there = (simulation(ranks=ranks) for ranks in (None, 1))
    seen = here.forward(model(), shots())
    for traces in seen:
        traces[20:40, 3] = np.nan
    weights = [np.linspace(0, 2, len(PLACES)), np.random.default_rng(5).uniform(0, 1, seen[1].shape)]
    there.prepare(model())
    found = [sim.gradient(1.01 * model(), shots(), observed=seen, weights=weights, missing="nan") for sim in (here, there)]
    alike(*([r.velocity, r.misfits] for r in found), "weights")
    refused(["NaN"], 2, here.gradient, model(), shots(), observed=seen)


@in_process
def arguments(program):
    """The same simulation in other words, arrays of other kinds: the same bits."""
    velocity, own = model(), shots()
    sim = simulation()
    expected = sim.forward(velocity, own)
    check(len(sim.times) == len(expected[0]) and expected[0].dtype == np.float32 and sim.shape == SHAPE, f"{sim} {sim.times}")
    keys = {"grid": {"nx": 40, "ny": 1, "nz": 30, "dx": 10, "dz": 10}, "equation.type": "wave", "time.end_time": 0.3, "boundary.all": "absorbing",
            "boundary.width": 6, "boundary.outside": True, **KEYS}
    alike(st.Simulation(keys).forward(velocity, own), expected, "a dictionary")
    with_model = {**keys, "medium.velocity": velocity, "source.1.position": (60, 0, 33), "source.1.f0": 14,
                  "receivers.positions": [(x, 0, z) for x, z in PLACES]}
    alike(st.Simulation(with_model).forward(), expected[:1], "a dictionary with arrays, and a shot")
    st.io.write_config("shot.ini", {**with_model, "medium.velocity": st.io.write_model("v.h5", velocity[:, None], spacing=(10, 10, 10)),
                                    "receivers.positions": st.io.write_positions("r.h5", with_model["receivers.positions"]), "output.every": 9})
    alike(st.Simulation("shot.ini").forward(), expected[:1], "a file")
    alike([st.io.run("shot.ini", {"output.path": "out"}, quiet=True).receivers.u], expected[:1], "the program")
    alike(st.Simulation("shot.ini", time=0.3, keys={"report.check_every": 7}).forward(None, own), expected, "shots in place of the file's")
    double = velocity.astype("f8")
    kinds = {"float64": double, "another order": np.asfortranarray(velocity), "every other": np.repeat(double, 2, 1)[:, ::2],
             "three axes": velocity[:, None], "a list": velocity.tolist(), "other bytes": velocity.astype(">f4"), "dlpack": Exported(velocity)}
    for name, kind in kinds.items():
        alike(sim.forward(kind, own), expected, name)
    read_only = velocity.copy()
    read_only.flags.writeable = False
    alike(sim.forward(read_only, own), expected, "read only")
    whole = np.full(SHAPE, 2000)
    alike(sim.forward(2000, own), sim.forward(whole, own), "a number, and integers")
    samples = st.ricker(14)(np.arange(sim.steps + 30) * sim.dt)
    check(all(np.allclose(a, b, atol=1e-5 * np.abs(b).max()) for a, b in zip(sim.forward(velocity, shots(signal=samples)), expected)), "samples")
    alike(sim.forward(velocity, [st.Shot((x, 0, z), s.signal, [(a, 0, b) for a, b in PLACES]) for s in own for x, z in s.position.tolist()]), expected, "x y z")
    check(sim.forward(velocity, own[0])[0].shape == expected[0].shape, "one shot")
    fields = sim.forward(velocity, own, fields=True).fields
    check(all(list(one) == [sim.steps] and list(one.values())[0].size == velocity.size for one in fields), f"{fields}")
    kept = simulation(keys={**KEYS, "maps.quantities": "max rms", "maps.dft": 14}).forward(velocity, own)
    check(set(kept.maps[0]) == {"max", "rms", "dft"} and kept.maps[0]["dft"].shape[0] == 1, f"{kept.maps}")
    alike(kept, expected, "maps")
    with simulation(dt=1e-3) as fixed:
        fixed.prepare(velocity)
        check(fixed.dt == 1e-3 and fixed.steps == 300 and fixed.boundary_velocity == velocity.max(), f"{fixed.dt} {fixed.steps}")
        refused(["dt", "bound"], 3, fixed.forward, 5 * velocity, own)
    refused(["closed"], 1, fixed.forward, velocity, own)
    card = OnCard(velocity)
    memory = st.arrays.given(card, "velocity")
    check((memory.data, memory.shape, memory.double) == (velocity.ctypes.data, SHAPE, False), "an array of a CUDA device")
    refused([], None, sim.forward, card, own)  # which the library knows better


class Exported:
    """An array that only __dlpack__ shows."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **how):
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class OnCard(Exported):
    """An array that says it is on a CUDA device."""

    def __dlpack__(self, stream):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return 2, 0


@in_process
def misfits(_):
    """A function as misfit: called once a shot, between forward and way back, with the gradient of the same J."""
    velocity, own, sim = model(), shots(3), simulation()
    seen, calls = sim.forward(1.02 * velocity, own), []

    def squares(shot, traces):
        calls.append(shot)
        difference = traces.astype("f8") - seen[shot]
        return 0.5 * sim.dt * (difference**2).sum(), sim.dt * difference

    expected, found = sim.gradient(velocity, own, observed=seen), sim.gradient(velocity, own, misfit=squares)
    check(sorted(calls) == [0, 1, 2], f"{calls}")
    check(np.allclose(found.velocity, expected.velocity, rtol=1e-4, atol=1e-5 * np.abs(expected.velocity).max()), "another gradient")
    check(np.allclose(found.misfits, expected.misfits, rtol=1e-5) and np.isclose(found.misfit, found.misfits.sum()), f"{found.misfits} {expected.misfits}")
    change = 1e-3 * np.random.default_rng(6).uniform(-1, 1, SHAPE) * velocity
    taylor = [sim.gradient(velocity + sign * change, own, observed=seen).misfit for sign in (1, -1)]
    slope = (expected.velocity.astype("f8") * change).sum()
    check(abs((taylor[0] - taylor[1]) / 2 - slope) < 0.02 * abs(slope), f"slope {slope}, differences {taylor}")

    class Mine(Exception):
        pass

    def raises(shot, traces):
        raise Mine("of my own")
    try:
        sim.gradient(velocity, own, misfit=raises)
        check(False, "the misfit's exception is lost")
    except Mine:
        pass
    again = sim.gradient(velocity, own, observed=seen)
    alike([again.velocity], [expected.velocity], "after an exception")
    for answer, words in ((1.0, ["(J, dJ/dtraces)"]), ((1.0, np.zeros((2, 3))), ["(2, 3)"]), (("x", seen[0]), ["a number"])):
        refused(words, 2 if words == ["(2, 3)"] else 1, sim.gradient, velocity, own, misfit=lambda shot, traces, answer=answer: answer)
    refused(["not with ranks"], 1, simulation(ranks=1).gradient, velocity, own, misfit=squares)


@in_process
def errors(program):
    """A wrong call is one Error of one line, and the simulation goes on."""
    velocity, own, sim = model(), shots(), simulation()
    seen = sim.forward(velocity, own)
    wrong = {"shape": {"shape": (1, 2, 3, 4)}, "number": {"time": "long"}, "spacing": {"spacing": (1, 2, 3, 4)}, "layers": {"layers": 2.5},
             "[time] cfl": {"keys": {"time.cfl": "x"}}, "unknown": {"keys": {"time.clf": 1}}, "True or False": {"free_surface": 3}, "ranks": {"ranks": 0}, "[grid]": {"keys": {"grid.origin": "x y"}}}
    for words, changes in wrong.items():
        refused([words], 1, lambda changes=changes: simulation(**changes).prepare(velocity))
    refused(["velocity", "an array or a number"], 1, lambda: simulation().forward(None, shots()))
    refused(["shot 0", "no receivers"], 1, lambda: simulation().forward(velocity, st.Shot((300, 200), st.ricker(12))))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        simulation().forward(velocity, [st.Shot((300, 200), st.ricker(120), [(200, 200)])])
    check(any("points per wavelength" in str(one.message) for one in warned), f"a coarse grid: {warned}")
    refused(["no.ini"], 1, st.Simulation, "no.ini")
    refused(["dictionary"], 1, st.Simulation, 7)
    refused(["[grid]"], 1, st.Simulation, {"equation.type": "wave", "time.steps": 3})
    for call, words, code in (
            (lambda: sim.forward(velocity[1:], own), ["medium.velocity", "(29, 40)"], 2), (lambda: sim.forward(-velocity, own), ["velocity"], 2),
            (lambda: sim.forward(velocity * np.nan, own), ["NaN"], 2), (lambda: sim.forward("fast", own), ["real numbers"], 2),
            (lambda: sim.forward(np.ma.masked_less(velocity, 2000), own), ["masked"], 2), (lambda: sim.forward(velocity, []), ["st.Shot"], 1), (lambda: sim.forward(velocity, [own]), ["st.Shot"], 1),
            (lambda: sim.forward(velocity, st.Shot((1e4, 20), st.ricker(14), PLACES)), ["source"], 1),
            (lambda: sim.forward(velocity, st.Shot((100, 20), st.ricker(14), [(1e4, 20)])), ["receiver"], 2),
            (lambda: sim.forward(velocity, st.Shot((100, 20), [1.0, 2.0], PLACES)), ["signals", "rows"], 2),
            (lambda: st.Shot((1, 2, 3, 4), st.ricker(14)), ["position"], 2), (lambda: st.Shot((100, 20), np.zeros((9, 3))), ["signal"], 2),
            (lambda: st.ricker(0), ["f0"], 1), (lambda: st.ricker("x"), ["f0"], 1),
            (lambda: sim.gradient(velocity, own), ["observed"], 1), (lambda: sim.gradient(velocity, own, observed=seen[:1]), ["of 1 shots"], 2),
            (lambda: sim.gradient(velocity, own, observed=[one[1:] for one in seen]), ["observed"], 2),
            (lambda: sim.gradient(velocity, own, observed=seen, of="speed"), ["[gradient] of"], 1),
            (lambda: sim.gradient(velocity, own, observed=seen, memory="much"), ["memory"], 1),
            (lambda: simulation().dt, ["prepare"], 1)):
        refused(words, code, call)
        alike(sim.forward(velocity, own[:1]), seen[:1], f"after an error about {words}")
    library = os.environ["STENCIL_LIBRARY"]
    script = "import stencil as st\ntry: st.Simulation(shape=(9, 9), time=1.0)\nexcept st.Error as error: print(error)"
    for name, words in (("no.so", "cannot be loaded"), (str(SOURCE / "README.md"), "cannot be loaded"), (other_interface(program), "interface is number 77")):
        result = python(program, script, STENCIL_LIBRARY=name or library)
        check(not name or words in result.out and result.out.count("\n") == 1, f"{name}: {result}")


def other_interface(program):
    """A library of another interface; "" where no compiler is."""
    if not shutil.which("cc"):
        return ""
    names = "version devices open close stream run describe".split()
    path = program.root / "other.so"
    source = "int stencil_abi(void) { return 77; }" + "".join(f"int stencil_{name}(void) {{ return 0; }}" for name in names)
    subprocess.run(["cc", "-shared", "-fPIC", "-xc", "-", "-o", path], input=source.encode(), check=True)
    return str(path)


def python(program, script, *options, **environment):
    """The result of a script in a Python of its own."""
    env = {"PYTHONPATH": str(SOURCE / "python"), "STENCIL_LIBRARY": os.environ["STENCIL_LIBRARY"], **environment}
    return program.finish([sys.executable, "-B", *options, "-c", script], env=env)


@in_process
def processes(program):
    """An import loads neither the library nor h5py; after a fork calls are refused; the library prints nothing."""
    script = """import sys, stencil as st
print([name for name in ("h5py", "matplotlib", "torch", "xarray") if name in sys.modules], "libstencil" in open("/proc/self/maps").read())"""
    result = python(program, script)
    check(result.out == "[] False\n", f"import: {result}")
    script = """import os, warnings, stencil as st
warnings.simplefilter("ignore") # of the coarse grid
sim, shot = st.Simulation(shape=(20, 21), time=0.01, keys={"device.backend": "host"}), st.Shot((5, 5), st.ricker(300), [(9, 9)])
sim.forward(1500, shot)
if os.fork() == 0:
    for call in (lambda: sim.forward(1500, shot), lambda: st.Simulation(shape=(20, 21), time=0.01)):
        try: call()
        except st.Error as error: print(error.code, "fork" in str(error), flush=True)
    del sim
    os._exit(0)
os.wait()
print(sim.forward(1500, shot)[0].shape[1])"""
    result = python(program, script)
    check(result.out == "4 True\n4 True\n1\n" and not result.err, f"fork: {result}")


@in_process
def interrupted(program):
    """Ctrl-C ends a run between two steps, and the simulation can be used again. A bar shows progress where it is asked for."""
    script = """import os, signal, threading, stencil as st
sim = st.Simulation(shape=(120, 121), spacing=10, time=1000.0, layers=8, keys={"device.backend": "host"}, progress=True)
shot = st.Shot((500, 500), st.ricker(12), [(600, 600)])
for call in (lambda: sim.forward(2000, shot), lambda: sim.gradient(2000, shot, misfit=lambda i, d: (0.0, d), memory="400MB")):
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    try: call()
    except KeyboardInterrupt: print("interrupted")
sim.prepare(1999)
print("goes on")"""
    result = python(program, script)
    check(result.out == "interrupted\ninterrupted\ngoes on\n" and "forward [" in result.err, f"{result}")


@in_process
def threads(_):
    """Several simulations run at once, one a thread, with the bits of one alone; two threads on one are refused."""
    velocity, own = model(), shots()
    expected = simulation().forward(velocity, own)
    found, refusals = {}, []

    def work(number):
        sim = simulation()
        for _ in range(5):
            found[number] = sim.forward(velocity, own)

    all_ = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for one in all_:
        one.start()
    for one in all_:
        one.join()
    check(len(found) == 4, "a thread failed")
    for traces in found.values():
        alike(traces, expected, "several threads")
    sim = simulation()

    def again(shot, traces):
        try:
            sim.forward(velocity, own)
        except st.Error as error:
            refusals.append(str(error))
        return 0.0, 0 * traces
    sim.gradient(velocity, own, misfit=again)
    check(len(refusals) == 2 and "at work" in refusals[0], f"{refusals}")


@in_process
def memory(_):
    """Many calls leave no memory, threads or files open."""
    velocity, own = model((12, 14)), [st.Shot((50.0, 50.0), st.ricker(30), [(70.0, 60.0)])]
    seen = simulation(shape=(12, 14), time=0.03, layers=3).forward(velocity, own)

    def use(count):
        sim = simulation(shape=(12, 14), time=0.03, layers=3)
        for _ in range(count):
            sim.forward(velocity, own)
        for _ in range(count // 10):
            sim.gradient(velocity, own, observed=seen)
            simulation(shape=(12, 14), time=0.03, layers=3).forward(velocity, own)
        gc.collect()
        status = Path("/proc/self/status").read_text()
        return [int(status.split(f"{key}:")[1].split()[0]) for key in ("VmRSS", "Threads")] + [len(os.listdir("/proc/self/fd"))]
    gc.disable()
    sim = simulation(shape=(12, 14), time=0.03, layers=3)
    for call in (lambda: sim.forward(velocity, own)[0], lambda: sim.gradient(velocity, own, misfit=lambda shot, d: (0.0, d)).velocity):
        held = weakref.ref(call())
        check(held() is None, "results outlive what the caller keeps")
    gc.enable()
    seen_so_far = [use(80) for _ in range(6)]  # threads come with arenas of malloc, up to a limit: a leak goes on
    grown = [after[0] - before[0] for before, after in zip(seen_so_far, seen_so_far[1:])]
    check(min(grown) < 200 and seen_so_far[0][1:] == seen_so_far[-1][1:], f"KiB, threads, files: {seen_so_far}")


@in_process
def page(program):
    """The lines of docs/PYTHON.md run as they stand; those of torch where it is."""
    blocks = re.findall(r"```python\n(.*?)```", (SOURCE / "docs/PYTHON.md").read_text(), re.DOTALL)[:2]
    check("import torch" not in blocks[0] and "import torch" in blocks[1], f"{blocks}")
    for package in ("matplotlib", "xarray"):
        if importlib.util.find_spec(package) is None:
            skip(f"no {package}")
    script = blocks[0] + (blocks[1] if importlib.util.find_spec("torch") else "") + "print(r.misfit > 0 and r.velocity.shape == (101, 201))"
    result = python(program, script, MPLBACKEND="Agg")
    check(result.out == "True\n" and (program.folder / "gather.png").exists(), f"{result}")


@in_process
def wheel(program):
    """pip builds a wheel of the source tree, whose only dependency is NumPy; what it installs needs nothing else."""
    for package in ("pip", "scikit_build_core"):
        if importlib.util.find_spec(package) is None:
            skip(f"no {package}")
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-index", "--no-build-isolation"]
    result = program.finish([*pip, "-w", program.folder, "-C", f"build-dir={program.root}/wheel", "-C", "cmake.define.STENCIL_CUDA=OFF", SOURCE / "python"], 600)
    made = sorted(program.folder.glob("*.whl"))
    check(result.code == 0 and len(made) == 1 and re.fullmatch(r"stencil-[\d.]+-py3-none-\w+[.]whl", made[0].name), f"{made} {result}")
    with zipfile.ZipFile(made[0]) as file:
        file.extractall(program.folder / "site")
    script = "import stencil as st; print(st.Simulation(shape=(20, 21), time=0.01).forward(1500, st.Shot((5, 5), st.ricker(300), [(9, 9)]))[0].shape[1], st.__file__)"
    result = program.finish([sys.executable, "-B", "-c", script], env={"PYTHONPATH": str(program.folder / "site"), "STENCIL_LIBRARY": ""})
    check(result.out == f"1 {program.folder}/site/stencil/__init__.py\n", f"{result}")


@in_process
def pictures(program):
    """plot() and to_xarray()."""
    try:
        import matplotlib
        import xarray
    except ImportError:
        skip("no matplotlib or no xarray")
    matplotlib.use("Agg")
    velocity, own, sim = model(), shots(), simulation()
    seen = sim.forward(velocity, own)
    axes = sim.plot(seen[0], own[0])
    check(axes.get_xlabel() == "receiver x (m)" and axes.get_xlim() == (PLACES[0][0], PLACES[-1][0]) and axes.get_ylim()[1] == 0, "a gather")
    check(sim.plot(velocity).get_xlim() == (0, 390), "a model")
    refused(["shape (3, 4, 5)"], 1, sim.plot, np.zeros((3, 4, 5)))
    found = sim.gradient(1.01 * velocity, own, observed=seen, of=("velocity", "image")).to_xarray()
    check(isinstance(found, xarray.Dataset) and set(found) == {"velocity", "image", "illumination"} and found.velocity.dims == ("z", "x"), f"{found}")
    check(float(found.z[-1]) == 290 and float(found.x[1]) == 10 and found.attrs["misfit"] > 0, f"{found}")


@in_process
def notebooks(program):
    """A shot and its gradient; an inversion, which must come near."""
    for name in ("gradient", "inversion"):
        run_notebook(program, name, STENCIL_LIBRARY=os.environ["STENCIL_LIBRARY"])


@in_process
def differentiated(_):
    """st.torch.forward: gradients in velocity, signals and initial field; two forwards before a backward; no second derivative."""
    try:
        import torch
    except ImportError:
        skip("no torch")
    sim, velocity = simulation(), model()
    sim.prepare(velocity)
    samples = st.ricker(14)(np.arange(sim.steps) * sim.dt).astype("f4")
    signals = [torch.tensor(samples * scale, requires_grad=True) for scale in (1, 0.7)]
    own = [st.Shot((60.0 + 71 * i, 33.0), signal, PLACES) for i, signal in enumerate(signals)]
    tensor, initial = torch.tensor(velocity, requires_grad=True), torch.zeros(SHAPE, requires_grad=True)
    first, second = st.torch.forward(sim, tensor, own, initial=initial), st.torch.forward(sim, 1.01 * tensor, own)
    loss = sum((one**2).sum() for one in first) + sum((one**3).sum() for one in second)
    loss.backward()
    kept = [torch.tensor(samples * scale) for scale in (1, 0.7)]
    plain = [st.Shot((60.0 + 71 * i, 33.0), signal.numpy(), PLACES) for i, signal in enumerate(kept)]
    zeros = np.zeros(SHAPE)
    one = sim.gradient(velocity, plain, misfit=lambda i, d: (0.0, 2 * d), of=("velocity", "signals", "initial"), initial=zeros)
    two = sim.gradient(np.float32(1.01) * velocity, plain, misfit=lambda i, d: (0.0, 3 * d**2), of=("velocity", "signals"))
    expected = one.velocity + np.float32(1.01) * two.velocity
    check(np.allclose(tensor.grad.numpy(), expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max()), "the velocity's")
    for i, signal in enumerate(signals):
        wanted = (one.signals[i] + two.signals[i]).reshape(-1)
        check(np.allclose(signal.grad.numpy(), wanted, rtol=1e-4, atol=1e-6 * np.abs(wanted).max()), "a signal's")
    check(np.allclose(initial.grad.numpy(), one.initial, rtol=1e-4, atol=1e-6 * np.abs(one.initial).max()), "the initial field's")
    with torch.no_grad():
        check(not st.torch.forward(sim, tensor, own)[0].requires_grad, "no_grad")
    slope, = torch.autograd.grad(st.torch.forward(sim, tensor, own)[0].pow(2).sum(), tensor, create_graph=True)
    try:
        slope.sum().backward()
        check(False, "a second derivative")
    except RuntimeError as error:
        check("twice" in str(error), f"{error}")


# --- wrong calls at random ---------------------------------------------------------------------------------------------


class Lies:
    __cuda_array_interface__ = {"shape": (12, 14), "typestr": "<f4", "data": (12345, False), "version": 3}


class Broken:
    __cuda_array_interface__ = {"shape": "x", "version": 3}


class Raises:
    shape = (12, 14)

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **_):
        raise RuntimeError("no\nway")

    def __array__(self, *_, **__):
        raise ValueError("not\nthis")


class Far(Raises):
    def __dlpack_device__(self):
        return 8, 3


class Odd:
    """Raises whatever is done with it."""
    __hash__ = None

    def fail(self, *_, **__):
        raise OSError("odd\nerror")
    __float__ = __int__ = __len__ = __repr__ = __iter__ = __bool__ = __eq__ = __index__ = __getitem__ = __dlpack_device__ = __dlpack__ = fail


def strange(shot):
    good = np.full((12, 14), 1500.0)
    return [None, "", "abc", b"x", "a=b\n[c]", 0, -1, 3, 10**30, 10**400, 1.5, float("nan"), float("inf"), True, False, 1j, [], [1], (1, 2), (1, 2, 3), [[1, 2], [3]],
            {}, {"a": 1}, {"time.cfl": 2}, {"grid.nx": "x"}, {1: 2}, {"a.b": None}, {"time": {"cfl": [1]}}, {"medium.velocity": [1, 2]}, object(), int, len,
            Lies(), Broken(), Raises(), Far(), Odd(), good, good.T, good[::2], good.astype("f4"), good.astype("i4"), good.astype(complex), good.astype(object),
            good.astype(bool), good * np.nan, good[0], np.zeros((0, 3)), np.zeros((2, 2, 2, 2, 2, 2)), np.float32(3), np.array("x"), np.array(5.0),
            np.zeros((1, 12, 14)), np.zeros(5, [("a", "f4")]), np.datetime64("2020-01-01"), set(), range(3), iter([1]), st.ricker(12), [st.ricker(12)],
            shot, [shot], "nan", "velocity", ("velocity", "image"), "4GB", np.ma.masked_array(good, good > 3), "../no:/v", "\ud800", "é" * 3000, slice(1), ...,
            NotImplemented, st, good * 1e30, good * 1e-30, 1e300 * good]


def at_random(source, pool, sims, own, seen):
    """A call some of whose arguments are strange."""
    def pick(good, part=0.3):
        return source.choice(pool) if source.random() < part else good
    kind, sim = source.randrange(6), sims[source.random() < 0.02]
    if kind == 0:
        named = {"shape": (12, 14), "spacing": 10, "time": 0.02, "dt": None, "layers": 3, "outside": False, "free_surface": True, "keys": None, "progress": False}
        return st.Simulation, [source.choice(pool)] if source.random() < 0.2 else [], {k: pick(v) for k, v in named.items() if source.random() < 0.8}
    if kind == 1:
        return st.Shot, [pick((10, 20)), pick(st.ricker(12)), pick([(10, 20)])], {}
    if kind == 2:
        return st.ricker, [pick(12), pick(0.1), pick(1)], {}
    named = {k: source.choice(pool) for k in ("density", "quality", "absorption", "initial") if source.random() < 0.15}
    given = [pick(np.full((12, 14), 1500.0)), pick(own)]
    if kind == 3:
        return sim.prepare, given[:1], named
    if kind == 4:
        return sim.forward, given, named
    more = {"observed": seen, "weights": None, "missing": None, "of": "velocity", "memory": None, "misfit": None}
    return sim.gradient, given, {**named, **{k: pick(v) for k, v in more.items() if source.random() < 0.5}}


def fuzzed(count):
    small = {"shape": (12, 14), "time": 0.02, "layers": None, "keys": {**KEYS, "device.threads": 1}}
    source, sim, closed = random.Random(int(os.environ.get("STENCIL_SEED", "8"))), simulation(**small), simulation(**small)
    closed.close()
    own = [st.Shot((x, 20), st.ricker(12), [(10, 20), (50, 30)]) for x in (30, 60)]
    seen, pool, kinds = sim.forward(1500, own), strange(own[0]), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(count):
            function, args, named = at_random(source, pool, (sim, closed), own, seen)
            if callable(named.get("misfit")) or isinstance(named.get("misfit"), Odd):
                continue  # what the caller's own function raises is the caller's
            try:
                function(*args, **named)
                kinds[0] = kinds.get(0, 0) + 1
            except st.Error as error:
                check("\n" not in str(error) and str(error) and error.code in (1, 2, 3, 4), f"call {number}: {error.code} {error}")
                kinds[error.code] = kinds.get(error.code, 0) + 1
            except Exception as error:
                raise AssertionError(f"call {number}, {function.__name__} {list(map(type, args))} {named.keys()}: {type(error).__name__}: {error}") from error
    alike(sim.forward(1500, own), seen, "after wrong calls")
    check({0, 1, 2} <= set(kinds), f"{kinds}")
    print(kinds)


@in_process
def fuzz(_):
    """Wrong calls at random, each an Error of one line."""
    fuzzed(3000)


@in_process
def slow_fuzz(_):
    fuzzed(100000)


if __name__ == "__main__":
    main()
