"""The program against the numpy oracle (oracle.py): every kind of face, space order, sources and receivers off the grid."""
import oracle
from analytic import misfit, np
from harness import write_field
from study_waves import interpolate, shoot, source_keys, wave_keys

SHAPE, SPACING, STEPS, F0 = (24, 22, 26), (10.0, 9.0, 8.0), 120, 30.0  # z y x; m; Hz


def compare(program, order, faces, width=6, value=0.0, at_rest=False, sources=((.43, .5, .52), (.6, .41, .3)), shape=SHAPE,
            b=6.2, density=None, averaging=None, loss=None):
    """The relative L2 misfits (field, traces). faces: words as in a config, of (lo, hi) along z, y, x; sources: z y x,
    as parts of the grid. A point of a neumann face is its own image: a source's weight there counts for both, so it is
    divided by W, 1/2 for each such face. An axis of one point does not exist: the oracle's grid has 1, 2 or 3. b: of the
    sinc's Kaiser window; None: linear. Receivers lie anywhere, some within a point of the faces. density: a random one of this
    ratio; averaging: on or off; loss: (key, strongest, mechanisms, y), random."""
    rng, size = np.random.default_rng(order), np.maximum(np.array(shape) - 1, 1) * SPACING
    there = lambda triple: [value for value, n in zip(triple, shape) if n > 1]
    velocity = (1900 + 1500 * rng.random(shape)).astype(np.float32)
    begin = np.exp(-sum((x - n // 2.2)**2 for x, n in zip(np.indices(shape), shape)) / 18).astype(np.float32) * (not at_rest)
    dt = (1.5 if density or loss else 1.8) / (velocity.max() * np.sqrt(oracle.star_sum(order, there(SPACING))))
    places, receivers = size * sources, size * np.concatenate([rng.random((9, 3)), rng.random((9, 3)).round(1)])
    write_field(program.folder / "v.h5", velocity, "v")
    write_field(program.folder / "begin.h5", begin, "u")
    keys = wave_keys(shape, SPACING, boundary__all=None, boundary__width=width, boundary__value=value, equation__space_order=order,
                     medium__velocity="v.h5:/v", initial__u="begin.h5:/u", time__steps=STEPS, time__dt=repr(float(dt)),
                     **interpolate("sinc" if b else "linear"))
    grid, rules = (there(shape), there(SPACING)), there(faces)
    sigma, V, absorbs = np.ones(grid[0]), None, {}
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
    for number, place in enumerate(places, 1):
        keys.update(source_keys(number, place[::-1], F0))
    _, traces = shoot(program, keys, receivers[:, ::-1])
    problem = oracle.Problem(*grid, rules, stepped, dt, order, width, value, V=V, **absorbs)
    (points, weights), sampled = (oracle.points([there(p) for p in some], *grid, rules, b) for some in (places, receivers))
    signals = np.stack([oracle.ricker(np.arange(STEPS) * dt, F0)] * len(places))
    at, weight = sampled
    field, expected = problem.forward(STEPS, begin.squeeze() * sigma, sources=(points, weights * (sigma / problem.W).ravel()[points]),
                                      signals=signals, receivers=(at, weight / sigma.ravel()[at]))[:2]
    return misfit(program.field(STEPS).squeeze(), field / sigma), misfit(traces, expected)


def absorption(program, loss, velocity, dt, rng):
    """What the oracle's problem gets, and keys: a random field of `key`, whose strongest loss is this."""
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
