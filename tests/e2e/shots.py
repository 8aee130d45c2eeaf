#!/usr/bin/env python3
"""Random shots: any faces, layers of any width, density, absorption, sizes that suit no vector and no tile. All ways to compute one give the bits
of the kernel `reference` on one rank: kernels, backends, ranks, threads, and runs that continue from a checkpoint of another
way.   shots.py CASE STENCIL MPIEXEC
"""
import random
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import case, check, h5py, main, np, same_bits

STEPS, HALF = 14, 7
KINDS = ["absorbing"] * 5 + ["fixed", "dirichlet", "neumann"]
HOST_KERNELS = ("simd", "simd_cached", "simd_columns", "wavefront", "auto")
TERMS_KERNELS = {"host": ("simd", "simd_cached", "simd_columns", "auto"), "cuda": ("bulk_tensor", "multi_stage", "multi_stage", "naive", "auto")}
CUDA_KERNELS = ("bulk_tensor", "bulk_tensor", "multi_stage", "multi_stage", "single_stage", "partitioned", "naive")


def random_shot(program, seed):
    """The keys of a shot, whose velocities are in v.h5."""
    choose = random.Random(seed)
    width = choose.choice([choose.randint(1, 12), choose.randint(13, 40)])
    nx, ny, nz = choose.randint(64, 330), choose.randint(12, 80), choose.randint(24, 80)
    nx, ny, nz = nx - nx % 4 * choose.randint(0, 1), max(ny, 2 * width + 1), max(nz, 2 * width + 1)
    faces = {}
    for axis in "xyz":
        if choose.random() < 0.12:
            faces[f"boundary.{axis}"] = "periodic"
        else:
            faces.update({f"boundary.{axis}_{side}": choose.choice(KINDS) for side in ("lo", "hi")})
    with h5py.File(program.folder / "v.h5", "w") as file:
        random_field = np.random.default_rng(seed).uniform
        file["v"] = random_field(1500, 3000, (nz, ny, nx)).astype(np.float32)
        file["rho"], file["q"] = (random_field(*limits, (nz, ny, nx)).astype(np.float32) for limits in ((800, 3000), (15, 90)))
    terms = {key: value for key, value in (("medium.density", "v.h5:/rho"), ("medium.quality", "v.h5:/q")) if choose.random() < 0.4}
    if terms:
        terms.update({"medium.mechanisms": choose.randint(1, 3), "medium.averaging": choose.choice(("on", "off"))})
    place = " ".join(f"{choose.uniform(0, n - 1) * h:.1f}" for n, h in ((nx, 10), (ny, 9), (nz, 11)))
    return {"grid.nx": nx, "grid.ny": ny, "grid.nz": nz, "grid.dx": 10, "grid.dy": 9, "grid.dz": 11, "time.steps": STEPS,
            "equation.type": "wave", "equation.space_order": choose.choice((2, 4, 6, 8, 8, 8)), "medium.velocity": "v.h5:/v",
            "boundary.width": width, "source.1.position": place, "source.1.f0": 30, "checkpoint.every_steps": HALF, **terms, **faces}


def compute(program, keys, name, way, ranks=0, restart=False):
    """The last field of a run whose files are called `name`, or of one that goes on from its checkpoint in the middle."""
    keys = {**keys, **way, "output.path": f"out/{name}"}
    if restart:
        (program.folder / f"out/{name}.checkpoint.{STEPS:08d}.h5").unlink()
    program.succeed("-q", program.config(keys), *(("--restart", "auto") if restart else ()), np=ranks)
    return program.field(STEPS, f"out/{name}")


def agree(program, seeds, ways):
    """ways(choose, terms): two ways of a shot; the second one also continues what the first one began, and the other way round."""
    for seed in seeds:
        program.fresh()
        keys, choose = random_shot(program, seed), random.Random(seed)
        expected = compute(program, keys, "reference", {"device.backend": "host", "device.kernel": "reference"})
        check(np.isfinite(expected).all() and np.ptp(expected) > 0, f"shot {seed}: not a field to test with")
        first, second = ways(choose, "medium.averaging" in keys)
        for name, begins, continues in (("a", first, second), ("b", second, first)):
            for way, restart in ((begins, False), (continues, True)):
                ranks = choose.choice((0, 2, 3))
                found = compute(program, keys, name, way, ranks, restart)
                check(same_bits(found, expected), f"shot {seed}: other bits by {way} on {ranks} ranks, restart {restart}: {keys}")


def host_way(choose, terms):
    kernels = TERMS_KERNELS["host"] if terms else HOST_KERNELS
    return {"device.backend": "host", "device.kernel": choose.choice(kernels), "device.threads": choose.randint(1, 3)}


@case
def host(program):
    """Kernels of the host, with each other's checkpoints."""
    agree(program, range(8), lambda choose, terms: (host_way(choose, terms), host_way(choose, terms)))


@case
def cuda(program):
    """A GPU and the host, with each other's checkpoints."""
    program.skip_without_cuda()
    lists = [program.kernels_here(names) for names in (CUDA_KERNELS, TERMS_KERNELS["cuda"])]
    agree(program, range(100, 116), lambda choose, terms: (
        {"device.backend": "cuda", "device.kernel": choose.choice(lists[terms])}, host_way(choose, terms)))


@case
def cuda_gradients(program):
    """The gradient by each CUDA kernel that has terms, in turn, has the bits of the oracle's."""
    program.skip_without_cuda()
    kernels = program.kernels_here(TERMS_KERNELS["cuda"])
    for number, seed in enumerate(range(200, 212)):
        program.fresh()
        keys, choose = random_shot(program, seed), random.Random(seed)
        keys["receivers.points"] = ", ".join(" ".join(f"{choose.uniform(0, keys[n] - 1) * keys[h]:.1f}" for n, h in
                                                      (("grid.nx", "grid.dx"), ("grid.ny", "grid.dy"), ("grid.nz", "grid.dz"))) for _ in range(3))
        keys |= {"checkpoint.every_steps": None, "initial.u": "gaussian"}
        compute(program, keys, "observed", {"device.backend": "host"})
        found = []
        for name, way in (("reference", {"device.backend": "host", "device.kernel": "reference"}),
                          ("cuda", {"device.backend": "cuda", "device.kernel": kernels[number % len(kernels)]})):
            compute(program, keys | {"gradient.adjoint_source": "out/observed.receivers.h5:/u"}, name, way)
            with h5py.File(program.folder / f"out/{name}.gradient.h5") as file:
                found.append(file["velocity"][...])
        check(np.isfinite(found[0]).all() and np.ptp(found[0]) > 0, f"shot {seed}: not a gradient to test with")
        check(same_bits(*found), f"shot {seed}: another gradient by {way}: {keys}")


@case
def constant_density(program):
    """A density that is the same everywhere changes no bit, in fields, traces and checkpoints; and terms need a kernel."""
    keys = random_shot(program, 3)
    keys = {key: value for key, value in keys.items() if not key.startswith("medium") or key == "medium.velocity"}
    shape = tuple(keys[f"grid.n{a}"] for a in "zyx")
    with h5py.File(program.folder / "v.h5", "a") as file:
        file["one"] = np.full(shape, 1234.5, np.float32)
    keys |= {"initial.u": "random", "receivers.points": "33 21 44, 100 40 33", "device.backend": "host"}
    files = {}
    for name, medium in (("none", {}), ("field", {"medium.density": "v.h5:/one", "medium.averaging": "off"}), ("number", {"medium.density": 2}),
                         ("averaged", {"medium.averaging": "on"}), ("both", {"medium.density": "v.h5:/one"})):
        files[name] = [compute(program, keys, name, medium)]
        with h5py.File(program.folder / f"out/{name}.receivers.h5") as file:
            files[name].append(file["u"][...])
    for one, other in (("none", "field"), ("none", "number"), ("averaged", "both")):
        check(all(map(same_bits, files[one], files[other])), f"{one} and {other} differ")
    check(not same_bits(files["none"][0], files["averaged"][0]), "averaging changes nothing")
    program.fail(1, ["'wavefront' does no density or absorption"], "-q", program.config({**keys, "medium.density": "v.h5:/one", "device.kernel": "wavefront"}))
    program.fail(1, ["too strong"], "-q", program.config({**keys, "medium.quality": 0.2}))


if __name__ == "__main__":
    main()
