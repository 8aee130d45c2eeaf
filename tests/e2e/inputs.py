#!/usr/bin/env python3
"""Input files of every shape that HDF5 allows: read right, or refused with one line; never a hang, a crash, or zeros.
inputs.py CASE STENCIL MPIEXEC   |   inputs.py --list
"""
import os
import re
import struct
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import SOURCE, case, check, h5py, main, np, same_bits, skip

SHAPE = (19, 12, 20)
WAVE = {"equation.type": "wave", "initial.u": "gaussian"}
QUICK = {"timeout": 60}


def random_field():
    return np.random.default_rng(18).uniform(-1, 1, SHAPE).astype(np.float32)


def write_virtual(path, *sources):
    """A virtual dataset /u of `sources`: (file, dataset) that have equal numbers of planes, one after another."""
    layout = h5py.VirtualLayout(SHAPE, "f4")
    for i, (file, dataset) in enumerate(sources):
        z = slice(i * SHAPE[0] // len(sources), (i + 1) * SHAPE[0] // len(sources))
        layout[z] = h5py.VirtualSource(file, dataset, (z.stop - z.start, *SHAPE[1:]))
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("u", layout)


def expect_read(program, name, expected, np_=0):
    """A run takes the dataset `name` for its initial field."""
    config = program.config({"initial.u": name, "output.every": 1, "time.steps": 1})
    for mode in ("-n", "-q"):
        program.succeed(mode, config, np=np_, **QUICK)
    check(same_bits(program.field(0), expected), f"{name}: other values were read")


def expect_refused(program, changes, *words):
    """Exit 2 before anything is written, in a dry run as well."""
    config = program.config(changes)
    for mode in ("-n", "-q"):
        program.fail(2, words, mode, config, **QUICK)


def expect_converted(program, key, name, values, *words, **more):
    """Refused with these words; the command that the line names makes a dataset of these values, which is read."""
    changes = {**more, key: name}
    expect_refused(program, changes, name, *words, f"jobs/convert.py plain {name.split(':/')[0]} OUT.h5")
    said = program.finish([sys.executable, "-B", *convert(program, changes), *(["--fill", "7"] if "missing" in words else [])])
    check(said.code == 0, said)
    with h5py.File(program.folder / "OUT.h5") as file:
        found = file[name.split(":/")[1]][...]
        check(np.allclose(found, values, 2e-7), f"{name}: converted to other values")
    plain = {**changes, key: f"OUT.h5:/{name.split(':/')[1]}"}
    if key == "initial.u":
        return expect_read(program, plain[key], np.asarray(values, "f4"))
    for mode in ("-n", "-q"):
        out = program.succeed(mode, program.config(plain), **QUICK).out
        check(f"input: {plain[key]}: " not in out, f"{name}: a word about the converted dataset: {out}")


def convert(program, changes):
    """The command that the program's line names."""
    line = program.run("-n", program.config(changes), **QUICK).errors[0]
    return re.search(r"(jobs/convert.py plain \S+ \S+)", line)[1].replace("jobs/", f"{SOURCE}/jobs/").split()


@case
def elsewhere(program):
    """Links and virtual datasets lead to the values, which are all there; raw files to the tool that reads them."""
    u, folder = random_field(), program.folder
    (folder / "sub").mkdir()
    with h5py.File(folder / "sub/a.h5", "w") as file:
        file["group/v"] = u
        file["group/soft"] = h5py.SoftLink("v")
        file["low"], file["high"] = u[:9], u[9:]
    with h5py.File(folder / "links.h5", "w") as file:
        file["out"] = h5py.ExternalLink("sub/a.h5", "/group")
        file["soft"] = h5py.SoftLink("/out/soft")
        file["root"] = h5py.ExternalLink(str(folder / "sub/a.h5"), "/")
        file["parts"] = h5py.ExternalLink("sub/virtual.h5", "/u")
    write_virtual(folder / "sub/virtual.h5", ("a.h5", "low"), (str(folder / "sub/a.h5"), "high"))
    u.tofile(folder / "raw")
    with h5py.File(folder / "external.h5", "w") as file:
        file.create_dataset("u", SHAPE, "f4", external=[("raw", 0, 4000), ("raw", 4000, h5py.h5f.UNLIMITED)])
    (folder / "far").mkdir()
    for name in ("sub/virtual.h5", "links.h5"):  # a symbolic link to a file: what that names is beside the file itself
        (folder / "far" / name.split("/")[-1]).symlink_to(folder / name)
    with h5py.File(folder / "sub/near.h5", "w") as file:
        file["v"], file["moved"] = h5py.ExternalLink("a.h5", "/group/v"), h5py.ExternalLink("/gone/a.h5", "/group/v")
    (folder / "far/near.h5").symlink_to("../sub/near.h5")
    for name in ("far/near.h5:/v", "far/near.h5:/moved", "far/virtual.h5:/u", "far/links.h5:/out/v"):
        expect_read(program, name, u)
    for name in ("links.h5:/out/v", "links.h5:/soft", "links.h5:/root/group/soft", "sub/virtual.h5:/u", "links.h5:/parts"):
        expect_read(program, name, u)
    expect_converted(program, "initial.u", "external.h5:/u", u, "its values are in other files")
    expect_read(program, "links.h5:/soft", u, np_=2)


@case
def missing_sources(program):
    """Files that HDF5 would read as zeros, wait for, or follow until its stack is full are refused."""
    u, folder = random_field(), program.folder
    os.mkfifo(folder / "pipe")
    u[:-1].tofile(folder / "short")
    with h5py.File(folder / "half.h5", "w") as file:
        file["u"] = u[:9]
        file["name"] = np.array([b"text"] * 9)
    good = ("half.h5", "u")
    sources = {"absent": [("absent.h5", "u")], "no_dataset": [("half.h5", "v")], "pipe": [good, ("pipe", "u")],
               "itself": [(".", "u")], "same": [("same.h5", "u")], "text": [("half.h5", "name")]}
    for name, parts in sources.items():
        write_virtual(folder / f"{name}.h5", *parts)
        expect_refused(program, {"initial.u": f"{name}.h5:/u"}, f"{name}.h5:/u")
    layout = h5py.VirtualLayout(SHAPE, "f4")
    with h5py.File(folder / "gap.h5", "w") as file:
        for name, parts, fill in (("u", [0], None), ("filled", [0], 0), ("twice", [0, 4, 8], 1)):  # `twice`: 27 planes, 17 of them
            for z in parts:
                layout[z:z + 9] = h5py.VirtualSource("half.h5", "u", (9, *SHAPE[1:]))
            file.create_virtual_dataset(name, layout, fill)
    endless = h5py.VirtualLayout((0, 12, 20), "f4", maxshape=(None, 12, 20))
    endless[:h5py.h5s.UNLIMITED] = h5py.VirtualSource("pipe", "u", (0, 12, 20), maxshape=(None, 12, 20))[:h5py.h5s.UNLIMITED]
    with h5py.File(folder / "endless.h5", "w") as file:
        file.create_virtual_dataset("u", endless)
    for raw in ("pipe", "short", "absent"):
        with h5py.File(folder / f"raw_{raw}.h5", "w") as file:
            file.create_dataset("u", SHAPE, "f4", external=[(raw, 0, h5py.h5f.UNLIMITED)])
    with h5py.File(folder / "links.h5", "w") as file:
        file["pipe"], file["absent"] = h5py.ExternalLink("pipe", "/u"), h5py.ExternalLink("absent.h5", "/u")
        file["loop"], file["dangling"] = h5py.SoftLink("/loop"), h5py.SoftLink("/nothing")
    names = ["gap.h5:/u", "gap.h5:/filled", "gap.h5:/twice", "endless.h5:/u", *(f"raw_{raw}.h5:/u" for raw in ("pipe", "short", "absent"))]
    for name in names + [f"links.h5:/{link}" for link in ("pipe", "absent", "loop")]:
        expect_refused(program, {"initial.u": name}, name)
    expect_refused(program, {"initial.u": "links.h5:/dangling"}, "links.h5: no dataset /dangling")
    expect_refused(program, {**WAVE, "receivers.positions": "raw_absent.h5:/u"}, "raw_absent.h5:/u")


@case
def sources_at_once(program):
    """More sources than may be open at once are refused: for the others HDF5 reads the fill value. A rank that may open
    fewer files than the first is sent its planes."""
    u, folder = random_field(), program.folder
    layout, points = h5py.VirtualLayout(SHAPE, "f4"), h5py.VirtualLayout((SHAPE[0] * SHAPE[1], 3), "f8")
    for i, (z, y) in enumerate(np.ndindex(SHAPE[:2])):
        with h5py.File(folder / f"part{i}.h5", "w") as file:
            file["u"], file["p"] = u[z, y], [[z / 2, y, z]]
        layout[z, y], points[i] = h5py.VirtualSource(f"part{i}.h5", "u", SHAPE[2:]), h5py.VirtualSource(f"part{i}.h5", "p", (1, 3))
    with h5py.File(folder / "virtual.h5", "w") as file:
        file.create_virtual_dataset("u", layout, 0.5)
        file.create_virtual_dataset("p", points)
    few = ["bash", "-c", 'ulimit -n 100; exec "$@"', "bash"]
    for changes in ({"initial.u": "virtual.h5:/u"}, {**WAVE, "receivers.positions": "virtual.h5:/p"}):
        result = program.run("-q", program.config(changes), by=few, **QUICK)
        words = list(changes.values())[-1], "part", "Too many open files: `ulimit -n` is 100"
        check(result.code == 2 and len(result.errors) == 1 and all(word in result.errors[0] for word in words), result)
    expect_read(program, "virtual.h5:/u", u)
    run = [program.path, "-q", program.config({"initial.u": "virtual.h5:/u", "output.every": 1})]
    result = program.finish([program.mpiexec, "-np", 1, *run, ":", "-np", 1, *few, *run], **QUICK)
    check(result.code == 0 and same_bits(program.field(0), u), result)


@case
def listing(program):
    """A missing dataset in files whose links have no end, or lead to where one waits for ever."""
    with h5py.File(program.folder / "hard.h5", "w") as file:
        group = file.create_group("g")
        for i in range(64):
            group[f"l{i}"] = group
        file["z"] = random_field()
    os.mkfifo(program.folder / "pipe")
    with h5py.File(program.folder / "pipes.h5", "w") as file:
        file["a"] = h5py.ExternalLink("pipe", "/u")
        file["z"] = random_field()
    for name in ("hard.h5", "pipes.h5"):
        expect_refused(program, {"initial.u": f"{name}:/u"}, f"{name}: no dataset /u: its 3D datasets are /z")
    expect_read(program, "hard.h5:/z", random_field())


@case
def types(program):
    """Numbers of every size and byte order are read; values beyond float32 are refused."""
    whole = np.random.default_rng(3).integers(-100, 100, SHAPE)
    for kind in ("i1", ">i2", "<i4", ">i8", "<f2", ">f4", "<f8", np.longdouble):
        with h5py.File(program.folder / "type.h5", "w") as file:
            file["u"] = whole.astype(kind)
        expect_read(program, "type.h5:/u", whole.astype(np.float32))
    for size in (17, 4096, 8388616):
        kind = h5py.h5t.STD_I32LE.copy()
        kind.set_size(size)
        space = h5py.h5s.create_simple(SHAPE)
        with h5py.File(program.folder / "type.h5", "w") as file:
            try:
                h5py.h5d.create(file.id, b"u", kind, space)
            except ValueError:
                continue  # newer versions of HDF5 write no such type
            h5py.h5d.create(file.id, b"p", kind, h5py.h5s.create_simple((2, 3)))
        expect_refused(program, {"initial.u": "type.h5:/u"}, "type.h5:/u")
        expect_refused(program, {**WAVE, "receivers.positions": "type.h5:/p"}, "type.h5:/p")


@case
def chunks(program):
    """Chunks and filters that do not fit the dataset, which HDF5 would read beyond its memory for, are refused; others read."""
    u, path = random_field(), program.folder / "chunks.h5"
    shape, points = struct.pack("<4I", *SHAPE, 4), struct.pack("<I", u.size)
    for options in ({"compression": "gzip"}, {"shuffle": True, "fletcher32": True}, {"maxshape": (None, 12, 20), "chunks": (32, 5, 7)}):
        with h5py.File(path, "w") as file:
            file.create_dataset("u", data=u, **{"chunks": True, **options})
        expect_read(program, "chunks.h5:/u", u)
    with h5py.File(path, "w") as file:
        file.create_dataset("u", data=(u * 99).astype("i4"), chunks=SHAPE, scaleoffset=0)
    expect_read(program, "chunks.h5:/u", (u * 99).astype("i4").astype("f4"))
    good = path.read_bytes()
    with h5py.File(path, "w") as file:
        file.create_dataset("u", data=0 * u, compression="lzf")  # h5py has this filter, HDF5 has not
    config = program.config({"initial.u": "chunks.h5:/u"})
    program.fail(2, ["chunks.h5:/u", "required filter 'lzf' is not registered"], config, env={"HDF5_PLUGIN_PATH": "."})
    check(good.count(shape) == 1 and good.count(points) == 1, "the file has another layout")
    for damaged in (good.replace(shape, struct.pack("<4I", SHAPE[0], 2**20, SHAPE[2], 4)),
                    good.replace(points, struct.pack("<I", 2**20)), good.replace(points, struct.pack("<I", 20))):
        path.write_bytes(damaged)
        expect_refused(program, {"initial.u": "chunks.h5:/u"}, "chunks.h5:/u", "its chunks are damaged")


@case
def chunks_unfiltered(program):
    """Chunks that say that a filter was not applied, or that they are shorter: HDF5 would read beyond its memory for them."""
    u, path = random_field(), program.folder / "chunks.h5"
    u[:, :, 10:] = 0
    for options in ({"compression": "gzip"}, {"shuffle": True, "compression": "gzip"}, {"scaleoffset": 4}, {"shuffle": True}, {}):
        with h5py.File(path, "w", libver="earliest") as file:
            file.create_dataset("u", data=u, chunks=(8, 7, 6), **options)
        good = path.read_bytes()
        node = next(i for i in range(len(good)) if good[i:i + 5] == b"TREE\1")
        size, _ = struct.unpack_from("<2I", good, node + 24)  # of the first chunk, and which filters were not applied
        for key in ([(size, 3)] if size < 8 * 7 * 6 * 4 else [(size - 40, 0)]) + [(7, 3)]:
            path.write_bytes(good[:node + 24] + struct.pack("<2I", *key) + good[node + 32:])
            expect_refused(program, {"initial.u": "chunks.h5:/u"}, "chunks.h5:/u", "its chunks are damaged")
    with h5py.File(path, "w", libver="earliest") as file:
        sparse = file.create_dataset("u", SHAPE, "f4", chunks=(8, 7, 6), compression="gzip")
        sparse[:8] = u[:8]
    u[8:] = 0
    expect_read(program, "chunks.h5:/u", u)


def with_attributes(program, values, attributes, **options):
    """data.h5:/d holds the values with these attributes."""
    with h5py.File(program.folder / "data.h5", "w") as file:
        dataset = file.create_dataset("d", data=values, **options)
        for name, value in attributes.items():
            dataset.attrs[name] = value
    return "data.h5:/d"


def result(program, changes, np_=0):
    """The last field of a run, and what it logged."""
    out = program.succeed(program.config({"time.steps": 3, **changes}), np=np_, **QUICK).out
    return program.field(3), out


@case
def packed(program):
    """scale_factor and add_offset are refused, but where they change nothing; the tool unpacks: in float64, rounded once."""
    random = np.random.default_rng(7)
    whole, scale, offset = random.integers(-3000, 3000, SHAPE), random.uniform(1e-4, 1e-2), np.float32(random.uniform(-9, 9))
    for kind, layout in (("<i2", {}), (">i2", {"chunks": (4, 5, 6), "compression": "gzip"}), (">f8", {})):
        numbers = (whole * (1 if "i" in kind else random.uniform(0.5, 2))).astype(kind)
        name = with_attributes(program, numbers, {"scale_factor": [scale], "add_offset": offset, "units": "Pa",
                                                  "_FillValue": np.array(-32768, kind)}, **layout)
        right = (numbers.astype("f8") * scale + np.float64(offset)).astype("f4")
        expect_converted(program, "initial.u", name, right, f"attribute scale_factor: expected none, found '{scale:.9g}'")
    expect_read(program, with_attributes(program, whole.astype("i2"), {"scale_factor": 1.0, "add_offset": 0}), whole.astype("f4"), np_=2)
    for attributes in ({"scale_factor": 0}, {"scale_factor": np.nan}, {"scale_factor": [1.0, 2.0]}, {"scale_factor": "2"},
                       {"add_offset": np.inf}, {"add_offset": h5py.Empty("f4")}, {"_Unsigned": "true"}):
        expect_refused(program, {"initial.u": with_attributes(program, numbers, attributes)}, "data.h5:/d", *attributes, "jobs/convert.py")


@case
def spacing(program):
    """A field that says another spacing than the grid's is warned of in one line; the axis that a 2D run lacks does not count."""
    values = np.random.default_rng(9).uniform(-1, 1, SHAPE)
    for said, ny, warned in (([1, 1, 1], 0, False), ([1, 2, 1], 0, True), ([1, 2, 1], 1, False), ([1, 1, 1.5], 1, True), ("25 m", 0, False)):
        name = with_attributes(program, values[:, :ny] if ny else values, {"spacing": said})
        for ranks, io in ((0, "auto"), (3, "server")):
            config = program.config({"initial.u": name, "grid.ny": ny or SHAPE[1], "parallel.io": io})
            out = program.succeed(config, *([] if ranks else ["-n"]), np=ranks, **QUICK).out
            words = f"input: {name}: warning: its spacing is {' '.join(map(str, said))} m, the grid's 1 1 1"
            check(out.count(words) == out.count("spacing is") == warned, f"{said}, ny = {ny}, {io}: {out}")


@case
def resolution(program):
    """An initial field that the grid does not resolve is warned of in one line, by any ranks, wherever it lies; one that it does is not."""
    z, x = np.mgrid[:40, :50]
    gaussian = lambda width, at: np.exp(-((z - at)**2 + (x - 25)**2) / 2 / width**2)
    block = lambda at: (abs(z - at) < 2) & (abs(x - 25) < 8)
    right = [gaussian(4, 20), gaussian(2, 20), gaussian(4, -2), np.cos(2 * np.pi * z / 6 + 0.3), 1 + z, 0 * z]
    wrong = [gaussian(1, 20), gaussian(1.2, 3), block(20), block(38), np.cos(2 * np.pi * z / 3)]
    for i, u in enumerate(right + wrong):
        name = with_attributes(program, np.array(u, "f4")[:, None], {})
        changes = {"equation.type": "wave", "initial.u": name, "grid.nx": 50, "grid.ny": 1, "grid.nz": 40}
        for ranks, io in ((0, "auto"), (3, "auto"), (3, "server"))[:1 if i % 5 else 3]:
            out = program.succeed(program.config({**changes, "parallel.io": io}), *([] if i % 2 or ranks else ["-n"]), np=ranks, **QUICK).out
            found = re.findall(r"^input: data.h5:/d: warning: (.*) % of the field's energy .* 4 points per wavelength along [xz],", out, re.M)
            check(len(found) == (i >= len(right)), f"field {i}, {ranks} ranks, {io}: {out}")
    heat = program.succeed("-n", program.config({**changes, "equation.type": "heat"})).out
    check("points per wavelength" not in heat, heat)


@case
def units(program):
    """SI units of every spelling are read, others refused with the tool's command; initial fields and signals have none."""
    random = np.random.default_rng(8)
    spellings = {"velocity": (["m/s", "m s-1", "m.s-1", "M/S", "meters per second", " metre second^-1 ", "[m/s]", np.bytes_(b"m s^-1"),
                               "m\u00b7s\u207b\u00b9", "m*s**-1", "1", "", " ", h5py.Empty("S1")],
                              ["km/s", "km s-1", "ft/s", "m/ms", "ms-1", "m", "m/s2", "m2/s", "s/m", "m/", "Mm/s", "/", "x" * 99, 5, ["m/s", "m/s"]]),
                 "density": (["kg/m3", "kg m-3", "kg/m^3", "kg/m\u00b3", "kilograms m**-3", "1"], ["g/cm3", "kg", "kg/m2", "m/s"]),
                 "absorption": (["dB/(MHz^y cm)", " dB / (MHz**y*cm)", "dB/(MHz^y\u00b7cm)", "1", ""],
                                ["Np/m", "m/s", "banana", "dB/(mHz^y cm)", "dB/(MHz^2 cm)", "dB/(MHz^y m)", "dB/(MHz^y", "m/m"]),
                 "quality": (["1", ""], ["dB", "percent", "m", "s/ms"]),
                 "diffusivity": (["m2/s", "m^2 s^-1", "m\u00b2/s", b"m2 s-1"], ["cm2/s", "mm2/s", "m/s", "m2", "W/m/K"])}
    for key, (right, wrong) in spellings.items():
        changes = {"equation.type": "heat" if key == "diffusivity" else "wave", "time.steps": 1}
        if key in ("quality", "absorption"):
            changes |= {"medium.reference_frequency": 30, "medium.absorption_power": 1 if key == "absorption" else None}
        numbers = random.uniform(14, 16, SHAPE).astype("f4")
        for i, unit in enumerate(right + wrong):
            changes[f"medium.{key}"] = with_attributes(program, numbers, {("units", "unit", "Units")[i % 3]: unit})
            if i < len(right):
                said = program.succeed("-n", program.config(changes), **QUICK).out
                check("input: data.h5:/d: " not in said, f"{unit!r}: {said}")
            else:
                words = "data.h5:/d", unit[:50] if isinstance(unit, str) else "text", "jobs/convert.py plain data.h5 OUT.h5"
                program.fail(2, words, ("-n", "-q")[i % 2], program.config(changes), **QUICK)
    kilometres = random.uniform(1.4, 1.6, SHAPE)
    expect_converted(program, "medium.velocity", with_attributes(program, kilometres, {"units": "km s-1"}), kilometres * 1e3,
                     "attribute units: expected m/s, found 'km s-1'", **WAVE)
    expect_read(program, with_attributes(program, random_field(), {"units": "furlong"}), random_field())


@case
def table_units(program):
    """Positions and times in other units are refused, and converted by the tool; signals have no unit."""
    random = np.random.default_rng(9)
    shot = {"equation.type": "wave", "initial.u": "zero", "medium.velocity": 1, "time.dt": 0.25, "source.1.position": "9 6 9",
            "source.1.wavelet": "gaussian", "source.1.f0": 1, "receivers.points": "9 6 9, 10 7 9"}
    positions, signal = np.array([[9, 6, 9], [10, 7.5, 9]]), np.stack([np.arange(4) * 0.25, random.uniform(1, 2, 4)], 1)
    tables = {"receivers.positions": (positions, [positions * 100, {"units": "centimeters"}], [(positions * 1e3).astype("i4"), {"units": b"mm"}],
                                      [(positions * 2).astype("i2"), {"scale_factor": 0.5}]),
              "source.1.wavelet": (signal, [signal * [1e3, 1], {"units": "ms"}], [signal * [1e6, 1], {"units": "\u00b5s"}])}
    for key, (right, *kinds) in tables.items():
        changes = {**shot, "receivers.points": None if "rec" in key else shot["receivers.points"]}
        for values, attributes in kinds:
            expect_converted(program, key, with_attributes(program, values, attributes), right, *attributes, **changes)
        for unit in ("kg", "m/s", "s" if "rec" in key else "m"):
            expect_refused(program, {**changes, key: with_attributes(program, right, {"units": unit})}, "data.h5:/d", f"found '{unit}'")
        for attributes in ({}, {"units": "metres" if "rec" in key else "sec"}):
            program.succeed("-q", program.config({**changes, key: with_attributes(program, right, attributes)}), np=2, **QUICK)
    program.succeed("-q", program.config({**shot, "source.1.wavelet": with_attributes(program, signal[:, 1], {"units": "kPa"})}), **QUICK)
    uneven = with_attributes(program, signal + [[0, 0], [0.01, 0], [0, 0], [0, 0]], {})
    expect_refused(program, {**shot, "source.1.wavelet": uneven}, "data.h5:/d", "row 1", "even times", "st.write_wavelet")


@case
def fill_values(program):
    """A fill value that occurs is refused, with its place and the tool's command."""
    random, at = np.random.default_rng(10), (7, 3, 11)
    for kind, fill, attributes in [
            ("f4", 1e20, {"_FillValue": 1e20}), ("f8", 1e20, {"missing_value": np.float32(1e20)}), ("f4", 99999, {"missing_value": [-1, 99999]}),
            ("f8", -999.25, {"_FillValue": np.float32(-999.25)}), ("i2", -32768, {"_FillValue": np.int16(-32768)}), ("u2", 65535, {"_FillValue": np.uint16(65535)}),
            (">i4", 2**31 - 1, {"missing_value": float(2**31 - 1)}), ("f4", 9.96920996838687e36, {}), ("i2", -32767, {})]:
        for options in ({}, {"chunks": True, "compression": "gzip"}):
            numbers = random.integers(1, 1000, SHAPE).astype(kind)
            default = {} if attributes else {"fillvalue": fill}
            if options:
                clean = with_attributes(program, numbers, attributes, **options, **default)
                program.succeed("-q", program.config({"initial.u": clean}), np=2, **QUICK)
            numbers[at] = fill
            words = ["data.h5:/d", f"{fill:.7g}, missing as its {next(iter(attributes), 'netCDF fill')} says", f"(z, y, x) = {at}",
                     "jobs/convert.py plain data.h5 OUT.h5 --fill VALUE"]
            name = with_attributes(program, numbers, attributes, **options, **default)
            expect_refused(program, {"initial.u": name}, *words)
            if not options:
                program.fail(2, words, program.config({"initial.u": name}), np=3, **QUICK)
    numbers = np.full(SHAPE, 1500, "i2")  # values that no attribute calls fill values, though they look like some
    numbers[at] = 99
    for attributes in ({}, {"_FillValue": 1e20}, {"missing_value": 98.5}, {"_FillValue": np.float32(np.nan)}):
        expect_read(program, with_attributes(program, numbers, attributes, fillvalue=99), numbers.astype("f4"))
    positions = with_attributes(program, [[3, 4, 5], [3, -9999, 5]], {"_FillValue": -9999})
    expect_refused(program, {**WAVE, "receivers.positions": positions}, "data.h5:/d", "-9999, missing as its _FillValue says, in row 1", "--fill")
    numbers = random.uniform(1, 9, SHAPE).astype("f4")
    numbers[at] = -1
    expect_converted(program, "initial.u", with_attributes(program, numbers, {"missing_value": -1}), np.where(numbers < 0, 7, numbers), "missing")


@case
def valid_ranges(program):
    """A number outside its valid range is missing: refused with its place; the range itself belongs to it."""
    random, at = np.random.default_rng(12), (5, 2, 13)
    for kind, low, high, attributes in [
            ("f4", 0.1, 0.7, {"valid_range": [0.1, 0.7]}), ("f8", -np.inf, 0.7, {"valid_max": np.float32(0.7)}), (">f4", 0.2, np.inf, {"valid_min": 0.2}),
            ("i2", 3, 999, {"valid_range": np.array([3, 999], "i2")}), ("u1", 7, 99, {"valid_min": 7, "valid_max": 99})]:
        whole = "f" not in kind
        ends = [0 if np.isinf(low) else low, low + 90 if np.isinf(high) else high]
        numbers = (random.integers(ends[0], ends[1], SHAPE) if whole else random.uniform(*ends, SHAPE)).astype(kind)
        numbers[at], numbers[0, 0, 0] = ends
        program.succeed("-q", program.config({"initial.u": with_attributes(program, numbers, attributes)}), np=2, **QUICK)
        for end, outward in ((low, -1), (high, 1)):
            numbers[at] = end + outward * (1 if whole else 0.01)
            if np.isfinite(end):
                name = with_attributes(program, numbers, attributes)
                expect_refused(program, {"initial.u": name}, "data.h5:/d", "missing as its valid_", f"(z, y, x) = {at}")
    for wrong in ({"valid_range": 3.0}, {"valid_range": [1, 2, 3]}, {"valid_min": "3"}):
        expect_refused(program, {"initial.u": with_attributes(program, numbers, wrong)}, "data.h5:/d", *wrong)
    positions = with_attributes(program, [[3, 4, 5], [3, 99, 5]], {"valid_max": 20})
    expect_refused(program, {**WAVE, "receivers.positions": positions}, "data.h5:/d", "99, missing as its valid_max says, in row 1")


@case
def netcdf(program):
    """What xarray writes of a packed velocity, whole and with a gap, and what netCDF writes where nothing was put."""
    try:
        import netCDF4
        import xarray
    except ImportError as missing:
        skip(f"{missing}")
    velocity = np.random.default_rng(11).uniform(1.4, 1.6, SHAPE)
    array = xarray.DataArray(velocity, dims=("z", "y", "x"), name="vp", attrs={"units": "km s-1", "long_name": "velocity"})
    kinds = {"int16": {"dtype": "int16", "scale_factor": 1e-5, "add_offset": 1.5, "_FillValue": -32768},
             "float32": {"dtype": "float32", "zlib": True}, "float64": {}}
    for kind, encoding in kinds.items():
        array.to_netcdf(program.folder / "model.nc", engine="netcdf4", encoding={"vp": encoding})
        with xarray.open_dataset(program.folder / "model.nc", engine="netcdf4") as file:
            right = file.vp.values.astype("f8") * 1e3
        expect_converted(program, "medium.velocity", "model.nc:/vp", right, "attribute", **WAVE)
        gap = array.where(array != velocity[4, 5, 6])
        gap.to_netcdf(program.folder / "gap.nc", engine="netcdf4", encoding={"vp": encoding})
        said = program.finish([sys.executable, "-B", f"{SOURCE}/jobs/convert.py", "plain", "gap.nc", "OUT.h5"])
        check(said.code == 1 and "gap.nc:/vp" in said.err and "(4, 5, 6)" in said.err, said)
    with netCDF4.Dataset(program.folder / "part.nc", "w") as file:
        for name, points in zip("zyx", SHAPE):
            file.createDimension(name, points)
        file.createVariable("vp", "f4", ("z", "y", "x"))[:9] = velocity[:9]
    expect_refused(program, {**WAVE, "medium.velocity": "part.nc:/vp"}, "9.96921e+36, missing as its netCDF fill says, at (z, y, x) = (9, 0, 0)")


@case
def newer_library(program):
    """Versions that this HDF5 does not know, and filters that it has not: the line says what they come from, and the cure."""
    with h5py.File(program.folder / "old.h5", "w", libver="earliest") as file:
        u = file.create_dataset("u", data=random_field())
        header, place = h5py.h5o.get_info(u.id).addr, u.id.get_offset()
        file.create_dataset("filtered", data=random_field(), compression="lzf")
    good = (program.folder / "old.h5").read_bytes()
    layout, kind = b"\3\1" + struct.pack("<2Q", place, random_field().nbytes), b"\x11\x20\x1f\0\4\0\0\0"
    space = b"\1\3\1\0\0\0\0\0" + struct.pack("<3Q", *SHAPE)
    versions = {"superblock": (8, 0, 4), "object header": (header, 1, 3), "layout": (good.find(layout), 3, 5),
                "datatype": (good.find(kind, header), 0x11, 0x51), "dataspace": (good.find(space, header), 1, 3)}
    for what, (at, old, new) in versions.items():
        check(at >= 0 and good[at] == old, f"{what}: the file has another layout")
        (program.folder / "new.h5").write_bytes(good[:at] + bytes([new]) + good[at + 1:])
        expect_refused(program, {"initial.u": "new.h5:/u"}, "new.h5:/u", what, "version", "newer HDF5 library", "h5repack --low=0")
    program.environment["HDF5_PLUGIN_PATH"] = "."
    expect_refused(program, {"initial.u": "old.h5:/filtered"}, "old.h5:/filtered", "lzf", "h5repack -f NONE")


@case
def huge_tables(program):
    """More rows than memory holds, with nothing stored. One column for many sources is one."""
    with h5py.File(program.folder / "huge.h5", "w") as file:
        for name, rows in (("p", 2**61), ("q", 2**33)):
            file.create_dataset(name, (rows, 3), "f4", chunks=(1000, 3))
        file.create_dataset("w", (2**40,), "f4", chunks=(1000,))
        file.create_dataset("s", (2800, 50000), "f4", chunks=(1, 50000))
        file["one"], file["at"] = np.sin(0.01 * np.arange(2800.0)), np.full((50000, 3), 3.0)
    for changes in ({"receivers.positions": "huge.h5:/p"}, {"receivers.positions": "huge.h5:/q"},
                    {"source.1.position": "3 3 3", "source.1.wavelet": "huge.h5:/w"}):
        expect_refused(program, {**WAVE, **changes}, next(v for v in changes.values() if ":/" in v))
    many = {**WAVE, "time.steps": 2799, "sources.positions": "huge.h5:/at", "sources.signals": "huge.h5:/s"}
    expect_refused(program, many, "huge.h5:/s: 2800 rows of 50000 numbers: a table may have 134217728 numbers (1 GiB)")
    program.succeed("-n", program.config({**many, "sources.signals": "huge.h5:/one"}))


@case
def pipes(program):
    """Named pipes without another end are neither read nor written; pipes that a shell makes are."""
    os.mkfifo(program.folder / "pipe")
    config = program.config({"time.steps": 1})
    for mode in ("-n", "-q"):
        program.fail(1, ["pipe", "named pipe"], mode, "pipe", **QUICK)
        program.fail(2, ["pipe", "named pipe"], mode, "--report", "pipe", config, **QUICK)
        program.fail(2, ["pipe"], mode, "--restart", "pipe", config, **QUICK)
    shell = f'set -o pipefail; {program.path} -q <(cat {config}) --report /dev/stdout | grep -q gpts'
    check(program.run(by=["bash", "-c", shell], **QUICK).code == 0, "pipes of the shell were refused")
    (program.folder / "stream").symlink_to("/proc/self/fd/1")  # as /dev/stdout is, which root must not replace
    check(program.run(by=["bash", "-c", f"{program.path} {config} --report stream >>both.txt"], **QUICK).code == 0, "a file as stdout")
    both = (program.folder / "both.txt").read_text()
    check('"gpts":' in both and "written: " in both.splitlines()[-1], both)
    check((program.folder / "stream").is_symlink(), "stdout was replaced")


if __name__ == "__main__":
    main()
