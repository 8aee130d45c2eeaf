#!/usr/bin/env python3
"""Saved files as other programs read them: xarray, ParaView; and the configuration in them, run again.
readers.py CASE STENCIL MPIEXEC   |   readers.py --list
"""
import importlib.util
import json
import os
import re
import shutil
import sys
import warnings

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import SOURCE, case, check, h5py, main, np, same_bits, skip

SHAPE = {"x": 20, "y": 16, "z": 12}
ORIGIN, SPACING = {"x": 10, "y": -20, "z": 30}, {"x": 2.5, "y": 5, "z": 7.5}
GEOMETRY = {**{f"grid.n{a}": n for a, n in SHAPE.items()}, **{f"grid.d{a}": h for a, h in SPACING.items()},
            "grid.origin": "10 -20 30"}
WAVE = {**GEOMETRY, "equation.type": "wave", "time.steps": 25, "output.every": 10, "report.histogram": 8,
        "initial.u": "gaussian", "initial.center": "22 20 60", "initial.width": 11,
        "source.1.position": "22 20 60", "source.1.f0": 30, "source.2.position": "40 20 60", "source.2.f0": 20,
        "receivers.line": "10 -20 30 50 50 100 7", "receivers.every": 3}
POINTS = {axis: ORIGIN[axis] + SPACING[axis] * np.arange(SHAPE[axis]) for axis in "xyz"} if np else {}


# --- xarray ---------------------------------------------------------------------------------------------------------


def check_axes(data, about, **sizes):
    check(dict(data.sizes) == sizes, f"{about}: axes {dict(data.sizes)}, not {sizes}")


def check_field(found, path, about):
    with h5py.File(path, "r") as file:
        values, time = file["u"][...], float(file.attrs["time"])
    u = found.u
    check(u.dims == ("z", "y", "x") and same_bits(u.values, values), f"{about}: /u is {u}")
    for axis in "xyz":
        coordinate = u.coords[axis]
        check(np.array_equal(coordinate.values, POINTS[axis]), f"{about}: {axis} is {coordinate}")
        check(coordinate.units == "m" and axis in coordinate.long_name, f"{about}: {axis} is {coordinate}")
    check(float(u.coords["time"]) == time and u.coords["time"].units == "s", f"{about}: time is {u.coords['time']}")
    check((u.units, u.long_name) == ("1", "pressure"), f"{about}: /u is {u}")
    bins, width = found.histogram, (found.attrs["max"] - found.attrs["min"]) / 8
    check(bins.dims == ("bin",) and int(bins.sum()) == values.size, f"{about}: /histogram is {bins}")
    check(np.allclose(bins.bin, found.attrs["min"] + width * (np.arange(8) + 0.5)), f"{about}: /bin is {bins.bin}")


def check_traces(found, path, about, sources):
    with h5py.File(path, "r") as file:
        values, positions = file["u"][...], file["position"][...]
    check(found.u.dims == ("time", "receiver") and same_bits(found.u.values, values), f"{about}: /u is {found.u}")
    check(found.position.dims == ("receiver", "xyz") and same_bits(found.position.values, positions), f"{about}: {found}")
    place = found.source_position
    check(place.dims == ("source", "xyz") and place.values.tolist() == sources, f"{about}: sources {place}")
    check(list(found.xyz.values) == ["x", "y", "z"], f"{about}: xyz is {found.xyz}")
    check(np.array_equal(found.time, 3 * np.arange(9) * found.dt), f"{about}: time is {found.time}")
    check((found.time.units, place.units, found.position.units, found.u.units) == ("s", "m", "m", "1"), f"{about}: units")
    for name in ("config", "command", "equation", "dt", "step", "backend", "kernel", "transport", "mpi_ranks", "created_by"):
        check(name in found.attrs, f"{about}: no attribute {name}")


def check_maps(found, path, about):
    with h5py.File(path, "r") as file:
        values = {name: file[name][...] for name in ("max", "dft")}
    check(found["max"].dims == ("z", "y", "x") and found.dft.dims == ("frequency", "z", "y", "x", "part"), f"{about}: {found}")
    check(list(found.frequency.values) == [30, 12.5] and list(found.part.values) == ["real", "imaginary"], f"{about}: {found}")
    check((found["max"].units, found.dft.units, found.frequency.units) == ("1", "s", "Hz"), f"{about}: units")
    check(all(same_bits(found[name].values, values[name]) for name in values), f"{about}: other values")


@case
def xarray(program):
    """Both engines for netCDF show named axes and coordinates, of fields and of traces, and warn of nothing."""
    missing = [name for name in ("xarray", "h5netcdf", "netCDF4") if not importlib.util.find_spec(name)]
    if missing:
        skip(f"{sys.executable} has no {', '.join(missing)}: apt install python3-xarray python3-h5netcdf python3-netcdf4")
    import xarray as xr
    import netCDF4  # noqa: F401  pylint: disable=unused-import; Debian's warns of numpy when it is loaded: not of our files
    warnings.simplefilter("error")
    for about, ranks, changes, sources in (
            ("one rank", 0, {}, [[22, 20, 60], [40, 20, 60]]),
            ("compressed", 3, {"output.compress": 4, "parallel.io": "gather"}, [[22, 20, 60], [40, 20, 60]]),
            ("a server, no sources", 3, {"parallel.io": "server", **{f"source.{i}.{key}": None for i in (1, 2)
                                                                      for key in ("position", "f0")}}, [])):
        program.fresh()
        program.succeed("-q", program.config({**WAVE, **changes, "maps.quantities": "max", "maps.dft": "30 12.5"}), np=ranks)
        for engine in ("h5netcdf", "netcdf4"):
            for step in (0, 10, 20, 25):
                path = program.folder / f"out/u.{step:08d}.hdf"
                with xr.open_dataset(path, engine=engine) as found:
                    check_axes(found, f"{about}, {engine}", **SHAPE, bin=8)
                    check_field(found.load(), path, f"{about}, {engine}, step {step}")
            path = program.folder / "out/u.maps.hdf"
            with xr.open_dataset(path, engine=engine) as found:
                check_maps(found.load(), path, f"{about}, {engine}, maps")
            path = program.folder / "out/u.receivers.h5"
            with xr.open_dataset(path, engine=engine) as found:
                check_axes(found, f"{about}, {engine}, traces", time=9, receiver=7, xyz=3, source=len(sources))
                check_traces(found.load(), path, f"{about}, {engine}", sources)


# --- ParaView -------------------------------------------------------------------------------------------------------

PIXELS = 16  # of the picture, each way, for a cell
# Runs in pvpython: opens a file as a user does and saves what it finds as found.json, and, of every time, arrays.
SHOW = """
import json, sys
import numpy as np
from paraview.simple import *
from vtk.util.numpy_support import vtk_to_numpy
name, layer, low, high, pixels = sys.argv[1], *map(int, sys.argv[2:3]), *map(float, sys.argv[3:5]), int(sys.argv[5])
reader = OpenDataFile(name)
times = list(reader.TimestepValues)
found = {"times": times}
for number, time in enumerate(times):
    reader.UpdatePipeline(time)
    image = servermanager.Fetch(reader)
    values = image.GetPointData().GetArray("u")
    np.save("values%d.npy" % number, vtk_to_numpy(values).reshape(image.GetDimensions()[::-1]))
    found.update(shape=image.GetDimensions(), origin=image.GetOrigin(), spacing=image.GetSpacing())
view = CreateRenderView()
view.ViewTime = times[-1]
cut = Slice(reader, SliceType="Plane")
cut.SliceType.Normal = [0, 0, 1]
cut.SliceType.Origin = found["origin"][:2] + (found["origin"][2] + layer * found["spacing"][2],)
shown = Show(cut, view)
table = GetColorTransferFunction("u")
table.RGBPoints, table.ColorSpace = [low, 0, 0, 0, high, 1, 1, 1], "RGB"
ColorBy(shown, ("POINTS", "u"))
table.RescaleTransferFunction(low, high)
shown.Ambient, shown.Diffuse, shown.Specular = 1, 0, 0
shown.SetScalarBarVisibility(view, False)
view.OrientationAxesVisibility = 0
view.UseColorPaletteForBackground, view.Background = 0, [0, 0, 1]
size = [(n - 1) * h for n, h in zip(found["shape"], found["spacing"])]
centre = [o + s / 2 for o, s in zip(found["origin"], size)]
scale = pixels / found["spacing"][0]
view.ViewSize = [int((s + 2 * h) * scale) for s, h in zip(size[:2], found["spacing"])]
Render(view)  # the first one moves the camera
view.CameraParallelProjection = 1
view.CameraFocalPoint, view.CameraPosition = centre, centre[:2] + [centre[2] + 10 * max(size)]
view.CameraViewUp, view.CameraParallelScale = [0, 1, 0], view.ViewSize[1] / scale / 2
Render(view)
SaveScreenshot("picture.png", view)
json.dump(found, open("found.json", "w"))
"""


def pvpython(program, name, *numbers):
    """What SHOW finds: (found.json, arrays by time, the picture's grey levels with y upwards)."""
    script = program.root / "show.py"
    script.write_text(SHOW)
    program.remove("*.npy")
    # The server must not start anew when ParaView closes its first connection, and so miss the second one.
    launch = [] if os.environ.get("DISPLAY") else ["xvfb-run", "-a", "-s", "-screen 0 1280x1024x24 -noreset"]
    result = program.finish([*launch, "pvpython", "--no-mpi", script, name, *numbers])
    check(result.code == 0 and not result.err and not result.out, f"pvpython {name} says: {result}")
    found = json.loads((program.folder / "found.json").read_text())
    arrays = [np.load(program.folder / f"values{i}.npy") for i in range(len(found["times"]))]
    import matplotlib.image
    picture = np.round(255 * matplotlib.image.imread(program.folder / "picture.png")[::-1, :, :3])
    return found, arrays, picture


def check_picture(picture, layer, low, high, about):
    """A block of pixels around each grid point of the layer has its value's grey level."""
    expected = 255 * np.clip((layer - low) / (high - low), 0, 1)
    check(np.ptp(expected) > 200, f"{about}: a dull layer shows nothing")
    x = PIXELS * (np.arange(SHAPE["x"]) + 1)
    y = int(PIXELS * SPACING["y"] / SPACING["x"]) * (np.arange(SHAPE["y"]) + 1)
    for dy in (-1, 0):
        for dx in (-1, 0):
            block = picture[np.ix_(y[1:-1] + dy, x[1:-1] + dx)]
            check(np.ptp(block, axis=-1).max() <= 1, f"{about}: colours, not greys")
            off = np.abs(block[..., 0] - expected[1:-1, 1:-1]).max()
            check(off <= 6, f"{about}: a pixel is {off} levels from its value")


@case
def paraview(program):
    """ParaView opens the series with its true times: points, spacing, values of every step, and what it draws of a layer."""
    if not shutil.which("pvpython") or not (os.environ.get("DISPLAY") or shutil.which("xvfb-run")):
        skip("no pvpython with a display: apt install paraview python3-paraview xvfb")
    if not importlib.util.find_spec("matplotlib"):
        skip("no matplotlib, which reads the picture")
    program.succeed("-q", program.config(WAVE), np=2)
    steps, layer = (0, 10, 20, 25), 5
    names = [program.folder / f"out/u.{step:08d}.hdf" for step in steps]
    fields, times = [], []
    for name in names:
        with h5py.File(name, "r") as file:
            fields.append(file["u"][...])
            times.append(float(file.attrs["time"]))
    low, high = float(fields[-1][layer].min()), float(fields[-1][layer].max())
    for about, name in (("the series", "out/u.hdf.series"), ("XDMF", "out/u.xdmf")):
        found, arrays, picture = pvpython(program, name, layer, low, high, PIXELS)
        check(np.allclose(found["times"], times, rtol=1e-15, atol=0), f"{about}: times {found['times']}, not {times}")
        for key, of in (("shape", SHAPE), ("origin", ORIGIN), ("spacing", SPACING)):
            check(found[key] == list(of.values()), f"{about}: {key} is {found[key]}")
        for step, array, field in zip(steps, arrays, fields):
            check(same_bits(array, field), f"{about}: other values at step {step}")
        check_picture(picture, fields[-1][layer], low, high, about)


# --- the page that lists all that files hold -------------------------------------------------------------------------


def names_of(path):
    """Names of all groups, datasets and attributes of a file but those that HDF5 gives dimension scales."""
    found, own = set(), {"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST"}
    with h5py.File(path, "r") as file:
        file.visititems(lambda name, item: found.update([name.split("/")[-1]], item.attrs))
        return (found | set(file.attrs)) - own


def keys_of(report):
    parts = report.values() if isinstance(report, dict) else report if isinstance(report, list) else []
    return set(report if isinstance(report, dict) else ()).union(*map(keys_of, parts))


@case
def listed(program):
    """docs/FILES.md names every dataset, attribute and key that the files of a run hold, and what it names is there."""
    program.succeed("-q", program.config({**WAVE, "boundary.all": "absorbing", "boundary.width": 3, "checkpoint.every_steps": 25,
                                          "maps.quantities": "max min rms", "maps.dft": 30}), "--report=r.json")
    page = (SOURCE / "docs/FILES.md").read_text()
    known = set(re.findall(r"[\w]+", " ".join(re.findall(r"`([^`\n]+)`", page))))
    for path in (*sorted((program.folder / "out").glob("*.h*")), program.folder / "r.json"):
        if path.suffix != ".series":
            names = keys_of(json.loads(path.read_text())) if path.suffix == ".json" else names_of(path)
            names -= {"psi_z", "zeta_z", "q05", "q50", "q95", "q99"} & names  # of which it names one
            check(len(names) > 15 and names <= known, f"docs/FILES.md does not name {sorted(names - known)} of {path.name}")
    for title, path in (("Saved fields", "out/u.00000025.hdf"), ("Maps", "out/u.maps.hdf"), ("Receivers", "out/u.receivers.h5"), ("Report", "r.json")):
        section = re.search(rf"^## {title}.*?(?=^## )", page, re.MULTILINE | re.DOTALL).group()
        printed = {n for cell in re.findall(r"^\| ([^|]*) \|", section, re.MULTILINE) for n in re.findall(r"`/?(?:\w+/)*(\w+)`", cell)}
        names = keys_of(json.loads((program.folder / path).read_text())) if title == "Report" else names_of(program.folder / path)
        check(len(printed) > 5 and printed <= names, f"{path} holds no {sorted(printed - names)}, which docs/FILES.md names")


# --- the configuration of a file ------------------------------------------------------------------------------------


def text_of(path, name="config"):
    with h5py.File(path, "r") as file:
        value = file.attrs[name]
    return value.decode() if isinstance(value, bytes) else str(value)


@case
def again(program):
    """The configuration that a field, the traces and a checkpoint hold runs an example again: the same bits."""
    shot = {"grid.nx": 61, "grid.nz": 61, "time.steps": 40, "source.1.position": "0.03 0.03 0.03", "source.1.f0": 1e5,
            "receivers.line": "0 0.03 0.01 0.06 0.03 0.01 11", "checkpoint.every_steps": 40}
    for example, changes in (("jacobi", {}), ("heat", {"time.steps": 50}), ("wave", shot)):
        program.fresh()
        options = [f"{key}={value}" for key, value in changes.items()] + ["device.backend=host"]
        program.succeed("-q", SOURCE / f"config/{example}.ini", "output.path=out/first", "output.every=20", *options)
        written = sorted((program.folder / "out").glob("first.*h*5")) + sorted((program.folder / "out").glob("first.*.hdf"))
        check(len(written) > 1, f"{example}: {written}")
        texts = {text_of(path) for path in written}
        check(len(texts) == 1, f"{example}: its files hold {len(texts)} configurations")
        (program.folder / "again.ini").write_text(texts.pop())
        program.succeed("-q", "again.ini", "output.path=out/again", "checkpoint.path=out/again.checkpoint", np=2)
        for path in written:
            other = path.with_name(path.name.replace("first", "again"))
            with h5py.File(path, "r") as a, h5py.File(other, "r") as b:
                check(same_bits(a["u"][...], b["u"][...]), f"{example}: other bits in {other.name}")


if __name__ == "__main__":
    main()
