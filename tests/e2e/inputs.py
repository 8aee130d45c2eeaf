#!/usr/bin/env python3
"""Input files of every shape that HDF5 allows: read right, or refused with one line; never a hang, a crash, or zeros.
inputs.py CASE STENCIL MPIEXEC   |   inputs.py --list

Exit 0: as specified; 1: not, saying how; 77: cannot be checked here, saying why.
"""
import os
import struct
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import case, check, h5py, main, np, same_bits

SHAPE = (19, 12, 20)
WAVE = {"equation.type": "wave", "initial.u": "gaussian"}
QUICK = {"timeout": 60}


def random_field():
    return np.random.default_rng(18).uniform(-1, 1, SHAPE).astype(np.float32)


def write_virtual(path, *sources, shape=SHAPE, fillvalue=None):
    """A virtual dataset /u of `sources`: (file, dataset) that have equal numbers of planes, one after another."""
    layout = h5py.VirtualLayout(shape, "f4")
    for i, (file, dataset) in enumerate(sources):
        z = slice(i * SHAPE[0] // len(sources), (i + 1) * SHAPE[0] // len(sources))
        layout[z] = h5py.VirtualSource(file, dataset, (z.stop - z.start, *SHAPE[1:]))
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("u", layout, fillvalue)


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


@case
def elsewhere(program):
    """Links, virtual datasets and raw files lead to the values, which are all there."""
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
    write_virtual(folder / "sub/virtual.h5", ("a.h5", "low"), (str(folder / "sub/a.h5"), "high"))
    u.tofile(folder / "raw")
    with h5py.File(folder / "external.h5", "w") as file:
        file.create_dataset("u", SHAPE, "f4", external=[("raw", 0, 4000), ("raw", 4000, h5py.h5f.UNLIMITED)])
    for name in ("links.h5:/out/v", "links.h5:/soft", "links.h5:/root/group/soft", "sub/virtual.h5:/u", "external.h5:/u"):
        expect_read(program, name, u)
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
    layout[:9] = h5py.VirtualSource("half.h5", "u", (9, *SHAPE[1:]))
    with h5py.File(folder / "gap.h5", "w") as file:
        file.create_virtual_dataset("u", layout)
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
    names = ["gap.h5:/u", "endless.h5:/u", *(f"raw_{raw}.h5:/u" for raw in ("pipe", "short", "absent"))]
    for name in names + [f"links.h5:/{link}" for link in ("pipe", "absent", "loop", "dangling")]:
        expect_refused(program, {"initial.u": name}, name)
    expect_refused(program, {**WAVE, "receivers.positions": "raw_absent.h5:/u"}, "raw_absent.h5:/u")


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


@case
def huge_tables(program):
    """More rows than memory holds, with nothing stored."""
    with h5py.File(program.folder / "huge.h5", "w") as file:
        for name, rows in (("p", 2**61), ("q", 2**33)):
            file.create_dataset(name, (rows, 3), "f4", chunks=(1000, 3))
        file.create_dataset("w", (2**40,), "f4", chunks=(1000,))
    for changes in ({"receivers.positions": "huge.h5:/p"}, {"receivers.positions": "huge.h5:/q"},
                    {"source.1.position": "3 3 3", "source.1.wavelet": "huge.h5:/w"}):
        expect_refused(program, {**WAVE, **changes}, next(v for v in changes.values() if ":/" in v))


@case
def pipes(program):
    """Named pipes at whose other end nobody is: neither read nor written. Those that a shell makes are."""
    os.mkfifo(program.folder / "pipe")
    config = program.config({"time.steps": 1})
    for mode in ("-n", "-q"):
        program.fail(1, ["pipe", "named pipe"], mode, "pipe", **QUICK)
        program.fail(2, ["pipe", "named pipe"], mode, "--report", "pipe", config, **QUICK)
        program.fail(2, ["pipe"], mode, "--restart", "pipe", config, **QUICK)
    shell = f'set -o pipefail; {program.path} -q <(cat {config}) --report /dev/stdout | grep -q gpts'
    check(program.run(by=["bash", "-c", shell], **QUICK).code == 0, "pipes of the shell were refused")


if __name__ == "__main__":
    main()
