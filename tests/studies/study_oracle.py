"""The program against the numpy oracle (oracle.py): every kind of face, space order, sources and receivers off the grid."""
from types import SimpleNamespace

import oracle
from analytic import misfit, np
from harness import h5py, write_field
from study_waves import interpolate, listed, shoot, source_keys, wave_keys

SHAPE, SPACING, STEPS, F0 = (24, 22, 26), (10.0, 9.0, 8.0), 120, 30.0  # z y x; m; Hz


def pose(program, order, faces, width=6, value=0.0, at_rest=False, sources=((.43, .5, .52), (.6, .41, .3)), shape=SHAPE,
         b=6.2, density=None, averaging=None, loss=None, rows=0):
    """A run and the oracle's problem. faces: words as in a config, of (lo, hi) along z, y, x; sources: z y x,
    as parts of the grid. A point of a neumann face is its own image: a source's weight there counts for both, so it is
    divided by W, 1/2 for each such face. An axis of one point does not exist: the oracle's grid has 1, 2 or 3. b: of the
    sinc's Kaiser window; None: linear. Receivers lie anywhere, some within a point of the faces. density: a random one of this
    ratio; averaging: on or off; loss: (key, strongest, mechanisms, y), random. rows: of signals from a dataset."""
    rng, size = np.random.default_rng(order), np.maximum(np.array(shape) - 1, 1) * SPACING
    there = lambda triple: [value for value, n in zip(triple, shape) if n > 1]
    velocity = (1900 + 1500 * rng.random(shape)).astype(np.float32)
    begin = np.exp(-sum((x - n // 2.2)**2 for x, n in zip(np.indices(shape), shape)) / 18).astype(np.float32) * (not at_rest)
    dt = (1.5 if density or loss else 1.8) / (velocity.max() * np.sqrt(oracle.stencil_sum(order, there(SPACING))))
    places, receivers = size * sources, size * np.concatenate([rng.random((9, 3)), rng.random((9, 3)).round(1)])
    write_field(program.folder / "v.h5", velocity, "v")
    write_field(program.folder / "begin.h5", begin, "u")
    keys = wave_keys(shape, SPACING, boundary__all=None, boundary__width=width, boundary__value=value, equation__space_order=order,
                     medium__velocity="v.h5:/v", initial__u="zero" if at_rest else "begin.h5:/u", time__steps=STEPS, time__dt=repr(float(dt)),
                     **interpolate("sinc" if b else "linear"))
    grid, rules = (there(shape), there(SPACING)), there(faces)
    sigma, V, absorbs, rho = np.ones(grid[0]), None, {}, np.ones(shape)
    if density or averaging == "on":
        rho = (1000 * (density or 1)**rng.random(shape)).astype(np.float32)
        if density:
            write_field(program.folder / "rho.h5", rho, "rho")
            keys["medium.density"] = "rho.h5:/rho"
        if averaging:
            keys["medium.averaging"] = averaging
        sigma, V, stepped = oracle.density(rho.squeeze().astype(float), velocity.squeeze(), there(SPACING), rules, order, averaging != "off", width)
        V = V if density else None
    else:
        stepped = velocity.squeeze().astype(float)
    if loss:
        absorbs, more = absorption(program, loss, velocity, dt, rng)
        keys.update(more)
    for axis, ends in there(zip("zyx", faces)):
        keys.update({f"boundary.{axis}_{end}": rule for end, rule in zip(("lo", "hi"), ends)})
    t = np.arange(rows or 3 * STEPS) * dt
    signals = np.stack([oracle.ricker(t, F0)] * len(places))
    if rows:
        signals += [k * oracle.ricker(t, F0, STEPS * dt) for k in (1, -2)]  # one is cut at the last step
        keys.update(listed(program, places[:, ::-1], signals.T))
    for number, place in enumerate(() if rows else places, 1):
        keys.update(source_keys(number, place[::-1], F0))
    problem = oracle.Problem(*grid, rules, stepped, dt, order, width, value, V=V, **absorbs)
    (points, weights), (at, weight) = (oracle.points([there(p) for p in some], *grid, rules, b) for some in (places, receivers))
    return SimpleNamespace(
        keys=keys, positions=receivers[:, ::-1], problem=problem, sigma=sigma, begin=begin.squeeze() * sigma, dt=dt, rules=rules,
        sources=(points, weights * (sigma / problem.W).ravel()[points]), receivers=(at, weight / sigma.ravel()[at]),
        signals=signals, width=width, rho=rho.squeeze().astype(float),
        velocity=velocity.squeeze().astype(float), averages=averaging == "on" or bool(density and averaging != "off"))


def compare(program, order, faces, **options):
    """The relative L2 misfits (field, traces)."""
    p = pose(program, order, faces, **options)
    _, traces = shoot(program, {**p.keys, "time.dispersion": "kept"}, p.positions)
    field, expected = p.problem.forward(STEPS, p.begin, sources=p.sources, signals=p.signals, receivers=p.receivers)[:2]
    return misfit(program.field(STEPS).squeeze(), field / p.sigma), misfit(traces, expected)


def given_velocity(p, gradient):
    """From dJ/d(velocity to step with) to dJ/d(velocity): through averages over cells, whose transpose is their own between weights."""
    if not p.averages:
        return gradient
    ends = np.ones_like(gradient)
    for axis, rules in enumerate(p.rules):
        for side, rule in enumerate(rules):
            oracle.part(np.flip(ends, axis) if side else ends, axis, 0, 1)[...] *= 0.5 if rule in ("dirichlet", "neumann") else 1
    rho = oracle.settled(p.rho, p.rules, p.width)
    passed = oracle.cell_average(gradient * p.problem.v**3 / p.sigma**2 / ends, p.rules) * ends
    return passed / (rho * p.velocity**3)


def compare_gradient(program, order, faces, every=1, removed=False, also=(), **options):
    """The relative L2 misfit of the gradient of a random function of the traces, by what it is with respect to; and dJ/dvelocity.
    also: signals, initial."""
    p = pose(program, order, faces, **options)
    signals = oracle.warp(p.signals.T, 1, "source").T if removed else p.signals
    steps = STEPS + (oracle.extra_steps(STEPS, every) if removed else 0)
    _, traces, history, brackets = p.problem.forward(steps, p.begin, sources=p.sources, signals=signals, receivers=p.receivers,
                                                     every=every, keep=True)
    wanted = np.random.default_rng(every).standard_normal(traces[:STEPS // every + 1].shape).astype(np.float32)
    given = np.pad(wanted, ((0, len(traces) - len(wanted)), (0, 0)))
    write_field(program.folder / "wanted.h5", wanted, "r")
    keys = {**p.keys, "receivers.every": every, "time.dispersion": "removed" if removed else "kept",
            "gradient.adjoint_source": "wanted.h5:/r", **{f"gradient.{key}": "on" for key in also}}
    shoot(program, keys, p.positions)
    expected = p.problem.adjoint(oracle.warp(given, every, transpose=True) if removed else given, p.receivers, p.sources, every, history, brackets)
    expected = {"velocity": given_velocity(p, expected["v_c"]), "initial": expected["initial"] * p.sigma,
                "signals": (oracle.warp(expected["signals"].T, 1, "source", True) if removed else expected["signals"].T)[:STEPS]}
    with h5py.File(program.folder / "out/u.gradient.h5") as file:
        found = {name: file[name][...].astype(np.float64).squeeze() for name in ("velocity", *also)}
    return {name: misfit(value, expected[name]) for name, value in found.items()}, found["velocity"]


def absorption(program, loss, velocity, dt, rng):
    """Arguments of the oracle's problem, and keys: a random field of `key` with this strongest loss."""
    (key, strongest, count, y), w0 = loss, 2 * np.pi * F0
    field = (strongest * (1 + 4 * rng.random(velocity.shape)) if key == "quality" else strongest * rng.random(velocity.shape)).astype(np.float32)
    write_field(program.folder / "loss.h5", field, "l")
    keys = {f"medium.{key}": "loss.h5:/l", "medium.mechanisms": count}
    if key == "quality":
        least = float(field.min())
        law = lambda w: oracle.law_Q(w, w0, 1, least)
        losses = np.tan(np.arctan(1 / field.astype(float)) / 2)
    else:
        keys["medium.absorption_power"] = y
        at = lambda w, v, alpha: 100 * alpha * (1e-6 / (2 * np.pi))**y / (20 * np.log10(np.e)) * w**(y - 1) * v
        losses = at(w0, velocity.astype(float), field.astype(float))
        law = lambda w: -1j * w * losses.max() * (w / w0)**(y - 1)
    mech = oracle.fit(law, (F0 / np.sqrt(10), F0 * np.sqrt(10)), dt, count, w0, 1)
    kappa = oracle.kappa_for(losses, w0, dt, mech).squeeze()
    return {"mech": mech, "kappa": kappa, "speed": oracle.speed(w0, dt, mech, kappa)}, keys
