"""The files of a run, and runs to be restarted from them."""
import json
import re
import shutil
import sys
import xml.etree.ElementTree as ElementTree

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import check, h5py, np, read_field, same_bits

# --- files of a run -----------------------------------------------------------------------------------------------

def fields_of(program, path):
    """The saved fields by step."""
    names = (program.folder / path).parent.glob((program.folder / path).name + ".[0-9]*.hdf")
    return {int(name.name.split(".")[-2]): read_field(name, program.path) for name in names}


def series_of(program, path):
    """Steps and times that the series lists. Readers of XDMF cannot open a list of nothing: it is not there."""
    if not json.loads((program.folder / f"{path}.hdf.series").read_text())["files"]:
        check(not (program.folder / f"{path}.xdmf").exists(), f"{path}.xdmf lists no field")
        return []
    root = ElementTree.parse(program.folder / f"{path}.xdmf").getroot()
    times = [float(t.get("Value")) for t in root.iter("Time")]
    items = [i.text.strip() for i in root.iter("DataItem") if i.get("Format") == "HDF"]
    steps = [int(re.fullmatch(r".*\.(\d{8,})\.hdf:.*", item).group(1)) for item in items]
    check(len(times) == len(steps), f"{path}.xdmf: {len(times)} times, {len(steps)} fields")
    names = [re.sub(":.*", "", item) for item in items]
    listed = json.loads((program.folder / f"{path}.hdf.series").read_text())["files"]
    check(listed == [{"name": n, "time": t} for n, t in zip(names, times)], f"{path}.hdf.series and .xdmf differ: {listed}")
    return list(zip(steps, times))


def traces_of(program, path):
    with h5py.File(program.folder / f"{path}.receivers.h5", "r") as file:
        return {name: file[name][...] for name in ("u", "time", "position")}


def check_same(program, path, reference, receivers, about, ends=()):
    """The files under `path` equal those under `reference`; runs that ended early may also have their last field, at
    `ends`."""
    found, expected = fields_of(program, path), fields_of(program, reference)
    check(set(expected) <= set(found) <= set(expected) | set(ends),
          f"{about}: fields of steps {sorted(found)}, not {sorted(expected)}")
    for step, field in expected.items():
        check(same_bits(found[step], field), f"{about}: other bits at step {step}")
    check(len(np.unique(expected[max(expected)])) > 100, f"{about}: the reference is next to constant")
    series, whole = series_of(program, path), series_of(program, reference)
    check(series == whole, f"{about}: the series is {series}, not {whole}")
    if receivers:
        found, expected = traces_of(program, path), traces_of(program, reference)
        for name, values in expected.items():
            check(same_bits(found[name], values), f"{about}: receivers: other bits in /{name}")
        check(np.isfinite(expected["u"]).all() and expected["u"].any(), f"{about}: nothing was received")


def checkpoints(program, path="out/c"):
    """Checkpoints by step: names relative to the working folder."""
    base = program.folder / path
    return {int(p.name.split(".")[-2]): str(p.relative_to(program.folder))
            for p in base.parent.iterdir() if re.fullmatch(re.escape(base.name) + r"\.\d{8,}\.h5", p.name)}


def temporaries(program):
    return [name for name in program.files() if ".tmp" in name]


# --- a disk of its own --------------------------------------------------------------------------------------------

# Runs "$@" with a file system of 1 or 2 MB in out/small, and copies what is left in it out of it; READ_ONLY: after the first
# checkpoint nothing more may be written.
MOUNTED = """mount -t tmpfs -o size=$SIZE none out/small || exit 99
if [ "$READ_ONLY" = before ]; then mount -o remount,ro none out/small || exit 99; fi
"$@" & run=$!
if [ "$READ_ONLY" = later ]; then
  until ls out/small/c.*.h5 > out/ls 2>&1; do sleep 0.02; done
  until mount -o remount,ro none out/small 2> out/ls; do sleep 0.002; done
fi
wait $run; code=$?
mkdir out/kept && cp -p out/small/* out/kept 2> out/ls
exit $code"""


def run_mounted(program, config, *args, size, ranks=0, read_only="", **environment):
    result = program.run_with_mounts(MOUNTED, config, *args, np=ranks, SIZE=size, READ_ONLY=read_only, **environment)
    folder = program.folder / "out/small"
    shutil.rmtree(folder)
    (program.folder / "out/kept").rename(folder)
    return result


# --- runs to be restarted -----------------------------------------------------------------------------------------

ORIGIN = {"grid.dx": 2, "grid.dy": 2.5, "grid.dz": 1.5}
WAVE = {"equation.type": "wave", **ORIGIN}
SHOT = {"source.1.position": "17.3 14.1 12.2", "source.1.wavelet": "ricker", "source.1.f0": 60,
        "source.1.t0": 0.004, "receivers.every": 3,
        "source.2.position": "20 10 9", "source.2.wavelet": "in.h5:/s", "source.2.amplitude": 3}
PERIODIC_X = {"boundary.x_lo": "periodic", "boundary.x_hi": "periodic"}


def model(program, shape=(26, 14, 20)):
    """Rough models and a wavelet."""
    rng = np.random.default_rng(11)
    v = rng.uniform(1500, 3000, shape).astype(np.float32)
    with h5py.File(program.folder / "in.h5", "w") as file:
        file["v"], file["upside_down"] = v, v[::-1]  # the same velocities, elsewhere
        file["alpha"] = rng.uniform(0.5, 2, shape).astype(np.float32)
        file["s"] = rng.uniform(-1, 1, 25).astype(np.float32)
        file["rows"] = np.c_[1e-4 + 2.7e-4 * np.arange(25), rng.uniform(-1, 1, 25)]


# Name; changes; kernel of the reference; runs: (ranks, steps until then, options besides).
RESTARTS = [
    ("jacobi, fixed", {"boundary.value": 0.5}, "simd",
     [(2, 7, ["output.compress=4"]), (3, 13, ["parallel.io=server"]), (1, 20, ["parallel.io=gather"])]),
    ("heat, a number, neumann and periodic", {"equation.type": "heat", "boundary.all": "neumann", **PERIODIC_X, **ORIGIN},
     "reference", [(1, 8, []), (3, 20, ["output.compress=1"])]),
    ("heat, a field, dirichlet and fixed",
     {"equation.type": "heat", "medium.diffusivity": "in.h5:/alpha", "boundary.all": "dirichlet", "boundary.y_hi": "fixed",
      "boundary.value": 0.25}, "simd", [(4, 7, []), (2, 20, ["device.kernel=reference"])]),
    ("wave, absorbing under a free surface, sources, a line of receivers",
     {**WAVE, **SHOT, "medium.velocity": "2000", "initial.u": "zero", "boundary.all": "absorbing", "boundary.width": 5,
      "boundary.z_lo": "dirichlet", "receivers.line": "3 4 3.3 34 30 20 7"}, "reference",
     [(1, 4, []), (3, 11, ["output.compress=3"]), (2, 20, ["parallel.overlap=off"])]),
    ("wave, a field, absorbing, neumann, fixed and periodic, sources, receivers",
     {**WAVE, **SHOT, "medium.velocity": "in.h5:/v", **PERIODIC_X, "boundary.y_lo": "neumann", "boundary.y_hi": "fixed",
      "boundary.z_lo": "absorbing", "boundary.z_hi": "neumann", "boundary.width": 6, "source.2.wavelet": "in.h5:/rows",
      "receivers.points": "3 4 3, 20.2 11 7, 33 30 35, 1 1 36.5"}, "simd",
     [(4, 6, ["parallel.io=server"]), (2, 14, ["device.kernel=reference"]), (5, 20, ["parallel.io=server"])]),
]
