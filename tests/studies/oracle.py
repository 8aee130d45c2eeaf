#!/usr/bin/env python3
"""Executable specification of stencil's wave equation and of its planned physics, in numpy (float64 or float32).

    u' = 2u - u_before + m (B - sum_l r_l),   m = c dt^2 v^2,   B = L u - V u + layers + sources
    r_l = a_l r_l(before) + b_l kappa B        (absorption; c makes v the phase velocity at one frequency)

Fields have 1, 2 or 3 axes. Density: u is q = sigma p. Run it: prints figures, exits with 1 when one is off; --short takes the
longest tests in part. Formulas and figures: oracle.md. study_oracle.py compares the program with it."""
import sys
import numpy as np

FD = {2: (-2, 1), 4: (-5 / 2, 4 / 3, -1 / 12), 6: (-49 / 18, 3 / 2, -3 / 20, 1 / 90),
      8: (-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560)}
def outer(order, width):  # of the layers' first derivative
    return {2: 0, 4: 0.03863}.get(order, 1 / 24 + min(0.3 / width**2, 0.01))
STAGGERED = (1225 / 1024, -245 / 3072, 49 / 5120, -5 / 7168)  # first derivative of order 8, for comparison

# --- 1. the stencil, faces and layers --------------------------------------------------------------------------------
def part(u, axis, begin, end, step=None):
    return u[(slice(None),) * axis + (slice(begin, end, step),)]
def ghosts(u, axis, rules, reach=4, value=0.0):
    """u with `reach` ghosts at both ends of an axis. rules: of its two faces; 'edge' repeats the last point."""
    def outside(u, rule):  # beyond the low face
        if rule == 'periodic': return part(u, axis, u.shape[axis] - reach, None)
        if rule == 'edge': return np.repeat(part(u, axis, 0, 1), reach, axis)
        mirror = part(u, axis, reach, 0, -1)
        if rule in ('dirichlet', 'neumann'): return -mirror if rule == 'dirichlet' else mirror
        return np.full_like(part(u, axis, 0, 1).repeat(reach, axis), value if rule == 'fixed' else 0)
    return np.concatenate([outside(u, rules[0]), u, np.flip(outside(np.flip(u, axis), rules[1]), axis)], axis)
def second(u, axis, h, rules, order=8, value=0.0):
    w, n, e = [x / h**2 for x in FD[order]], u.shape[axis], ghosts(u, axis, rules, 4, value)
    return sum((w[r] * (part(e, axis, 4 - r, 4 - r + n) + part(e, axis, 4 + r, 4 + r + n)) for r in range(1, len(w))), w[0] * u)
def stencil_sum(order, spacing):
    """S: the sum of the stencil's absolute weights. Stable where dt^2 max(c v^2 (S + V) (1 - kappa sum b/(1+a))) <= 4."""
    return sum((abs(FD[order][0]) + 2 * sum(map(abs, FD[order][1:]))) / h**2 for h in spacing)

class Layer:
    """One absorbing face. Points count from the outer edge; psi[k] is at half point k - 3/2."""
    def __init__(self, p, axis, high, width, vmax, dt):
        self.axis, self.high, self.width, self.h = axis, high, width, p.spacing[axis]
        self.d = (1 + 3 * outer(p.order, width), -outer(p.order, width))
        shape, k = [width if i == axis else 1 for i in range(len(p.shape))], np.arange(width)
        self.a, self.b, self.a_psi, self.b_psi = (c.reshape(shape).astype(p.dtype) for x in (k, k - 1.5) for c in self.profile(x, vmax, dt))
    def profile(self, x, vmax, dt):
        depth, thick = np.clip((self.width - 1.5 - x) / (self.width - 0.5), 0, 1), self.width - 0.5
        d = 4 * vmax * min(0.7 * self.width, 14) * np.log(10) / (2 * thick * self.h) * depth**3
        alpha = vmax / (self.width * self.h) / min(self.width, 8) * (1 - depth)
        a, inside = np.exp(-(d + alpha) * dt), depth > 0
        return np.where(inside, a, 0), np.where(inside, d / np.where(inside, d + alpha, 1) * (a - 1), 0)
    def view(self, u): return part(np.flip(u, self.axis) if self.high else u, self.axis, 0, self.width)  # from the outer edge
    def add(self, u, values): np.add(self.view(u), values, out=self.view(u))
    def difference(self, u, before):  # zeros before the first or after the last value
        e = np.concatenate([np.zeros_like(part(u, self.axis, 0, 3)), u][::1 if before else -1], self.axis)
        s = lambda k: part(e, self.axis, k, k + self.width)
        return self.d[0] * (s(2) - s(1)) + self.d[1] * (s(3) - s(0))
    def G(self, u): return self.difference(u, True)                    # du/ds times the spacing
    def H(self, psi): return self.difference(psi, False) / self.h**2   # = -G^T / h^2

class Problem:
    """faces: ((lo, hi), ...) of the axes. v, kappa, speed: numbers or fields; V: field or None; mech: (a_l, b_l)."""
    def __init__(self, shape, spacing, faces, v, dt, order=8, width=20, value=0.0, vmax=None, V=None,
                 mech=((), ()), kappa=0.0, speed=1.0, dtype=np.float64):
        self.shape, self.spacing, self.faces, self.dt, self.order, self.value = shape, spacing, faces, dt, order, value
        cast = lambda f: np.broadcast_to(np.asarray(f, dtype), shape)
        self.v = np.broadcast_to(np.asarray(v, float), shape)
        self.dtype, self.V, self.mech, self.kappa = dtype, None if V is None else cast(V), mech, cast(kappa)
        self.m = cast(speed * dt**2 * self.v**2)
        self.layers, self.rest = ([Layer(self, i, side, width, vmax or self.v.max(), step) for i in range(len(shape)) for side in (0, 1)
                                   if faces[i][side] == 'absorbing'] for step in (dt, np.inf))  # rest: what is before a step is forgotten
        self.free, self.W = np.ones(shape, dtype), np.ones(shape, dtype)  # 0 where held; weights of the trapezoidal rule
        for i, rules in enumerate(faces):
            for side, rule in enumerate(rules):
                first = lambda u: part(np.flip(u, i) if side else u, i, 0, 1)
                if rule == 'dirichlet': first(self.free)[...] = 0
                if rule == 'neumann': first(self.W)[...] *= 0.5
    def D2(self, u, i, value=0.0): return second(u, i, self.spacing[i], self.faces[i], self.order, value)
    def minus_V(self, u): return np.zeros_like(u) if self.V is None else -self.V * u
    def D(self, u, value=0.0): return sum((self.D2(u, i, value) for i in range(u.ndim)), self.minus_V(u))
    def memory(self):
        zeros = lambda: [np.zeros_like(l.view(self.m)) for l in self.layers]
        return zeros(), zeros(), [np.zeros(self.shape, self.dtype) for _ in self.mech[0]]
    def damp(self, B, r):
        for l, (a, b) in enumerate(zip(*self.mech)): r[l] = self.dtype(a) * r[l] + self.dtype(b) * self.kappa * B
        return B - sum(r) if r else B
    def bracket(self, u, psi, zeta, layers=None):
        B = self.minus_V(u)
        for i in range(u.ndim):
            d2 = self.D2(u, i, self.value)
            B += d2
            for k, l in enumerate(layers or self.layers):
                if l.axis != i: continue
                psi[k] = l.a_psi * psi[k] + l.b_psi * l.G(l.view(u))
                zeta[k] = l.a * zeta[k] + l.b * (l.view(d2) + l.H(psi[k]))
                l.add(B, l.H(psi[k]) + zeta[k])
        return B
    def forward(self, steps, u=None, before=None, sources=None, signals=None, receivers=None, every=1, keep=False):
        """sources, receivers: (indices, weights), each (n, k); signals: (n, steps). before None: at rest.
        Returns u, traces (samples, receivers), and where `keep`: [u^-1, u^0, ...], [B^0 - sum r^0, ...]."""
        u = np.zeros(self.shape, self.dtype) if u is None else np.asarray(u, self.dtype) * self.free
        if before is None: before = u + self.m / 2 * self.bracket(u, *self.memory()[:2], self.rest)  # without absorption, as the program
        before, (psi, zeta, r) = np.asarray(before, self.dtype) * self.free, self.memory()
        history, brackets, traces = [before, u], [], []
        for n in range(steps + 1):
            if n % every == 0 and receivers is not None: traces.append((u.ravel()[receivers[0]] * receivers[1]).sum(1))
            if n == steps: return u, np.array(traces), history, brackets
            B = self.bracket(u, psi, zeta)
            if sources is not None: inject(B, sources, signals[:, n])  # before the memory of absorption
            M = self.damp(B, r)
            u, before = (2 * u - before + self.m * M) * self.free, u
            if keep: history.append(u), brackets.append(M)
    # --- 5. the exact adjoint ---
    def adjoint_bracket(self, nu, phi, chi, layers=None):
        """The transposed layers: chi before the stencil, phi after it; the stencil itself is the same."""
        B = self.minus_V(nu)
        for i in range(nu.ndim):
            stretched = nu.copy()
            for k, l in enumerate(layers or self.layers):
                if l.axis != i: continue
                chi[k] = l.a * chi[k] + l.b * l.view(nu)
                l.add(stretched, chi[k])
                phi[k] = l.a_psi * phi[k] + l.b_psi * l.G(l.view(stretched))
                l.add(B, l.H(phi[k]))
            B += self.D2(stretched, i)
        return B
    def adjoint(self, residual, receivers, sources=None, every=1, history=None, brackets=None):
        """residual[i, j] = dJ/d(trace j at sample i). Returns the gradients: 'signals', 'initial' (of u^0, at rest),
        and of v in three forms: v_a (lambda, forward bracket), v_b (u, second difference of lambda), v_c (u, adjoint
        bracket: what to use). vmax, dt and the layers' profiles count as constants."""
        steps, zero, (phi, chi, r) = (len(residual) - 1) * every, lambda: np.zeros(self.shape, self.dtype), self.memory()
        nu, nu_after, lam, lam_after, form = zero(), zero(), zero(), zero(), {k: zero() for k in 'abc'}
        back, out = (receivers[0], receivers[1] / self.W.ravel()[receivers[0]]), {}
        if sources is not None: out['signals'] = np.zeros((len(sources[0]), steps), self.dtype)
        for n in range(steps, -1, -1):  # nu, lam: of step n + 1
            if sources is not None and n < steps:
                out['signals'][:, n] = ((self.W * nu).ravel()[sources[0]] * sources[1]).sum(1)
            if brackets is not None and n < steps: form['a'] += self.m * lam * brackets[n]
            B = self.adjoint_bracket(nu, phi, chi)
            if n % every == 0: inject(B, back, residual[n // every])
            B *= self.free
            if n == 0: break
            nu, nu_after = 2 * nu - nu_after + self.m * self.damp(B, r), nu
            new = 2 * lam - lam_after + B
            for k, b in (('c', B), ('b', new - 2 * lam + lam_after)) if history is not None else (): form[k] += history[n + 1] * b
            lam, lam_after = new, lam
        # lam, lam_after: of steps 1 and 2; B: of step 0
        out['initial'] = self.W * self.free * (lam - lam_after + B - 0.5 * self.adjoint_bracket(self.m * lam, *self.memory()[:2], self.rest))
        if history is not None:
            for k in 'bc': form[k] += history[1] * (lam_after - 2 * lam) + history[0] * lam
            for k, f in form.items(): out['v_' + k] = self.W * (2 / self.v).astype(self.dtype) * \
                self.free * (f - 0.5 * self.m * lam * self.bracket(history[1], *self.memory()[:2], self.rest))
        return out

# --- 6. points ------------------------------------------------------------------------------------------------------
def inject(B, points, values): np.add.at(B.reshape(-1), points[0], points[1] * np.asarray(values)[:, None])
def points(positions, shape, spacing, faces=None, b=None):
    """(indices, weights) of points; positions (n, axes) in m. b None: trilinear, as the program. Else 8 points an axis:
    sinc with a Kaiser window of parameter b, sum 1; 'lagrange': the polynomial of degree 7. Beyond mirrors the images
    take the weight, with their sign; near fixed and absorbing faces the axis is linear."""
    positions = np.atleast_2d(np.asarray(positions, float))
    idx, w = np.zeros((len(positions), 1), int), np.ones((len(positions), 1))
    for i, n in enumerate(shape):
        x = positions[:, i] / spacing[i]
        lo, j = np.minimum(np.floor(x + 1e-9).astype(int), n - 1), np.arange(0, 2) if b is None else np.arange(-3, 5)
        f = np.maximum(x - lo, 0)[:, None]
        linear = np.where(j == 0, 1 - f, np.where(j == 1, f, 0))
        wi, at = linear if b is None else window(j, f, b), lo[:, None] + j
        for side, rule in enumerate(faces[i] if faces else ('edge', 'edge')):
            out = at < 0 if side == 0 else at > n - 1
            if rule in ('dirichlet', 'neumann'):
                wi = np.where(out & (rule == 'dirichlet'), -wi, wi)
                at = np.where(out, -at if side == 0 else 2 * (n - 1) - at, at)
            elif rule != 'periodic': wi = np.where(out.any(1, keepdims=True), linear, wi)
        at = at % n if faces and faces[i][0] == 'periodic' else np.clip(at, 0, n - 1)
        idx = (idx[:, :, None] * n + at[:, None, :]).reshape(len(x), -1)
        w = (w[:, :, None] * wi[:, None, :]).reshape(len(x), -1)
    return idx, w
def window(j, f, b):
    if b == 'lagrange': return np.stack([np.prod([(f[:, 0] - m) / (k - m) for m in j if m != k], 0) for k in j], 1)
    w = np.sinc(j - f) * np.i0(b * np.sqrt(np.maximum(1 - ((j - f) / 4)**2, 0)))
    return w / w.sum(1, keepdims=True)
def ricker(t, f0, t0=None):
    a = (np.pi * f0 * (t - (1.5 / f0 if t0 is None else t0)))**2
    return (1 - 2 * a) * np.exp(-a)

# --- 2. density -----------------------------------------------------------------------------------------------------
def cell_average(x, faces):
    """Point values to averages over cells, (1, 22, 1) / 24 along each axis. Mirrors are even, other faces constant."""
    for i in range(x.ndim):
        e, n = ghosts(x, i, even(faces[i]), 1), x.shape[i]
        x = (part(e, i, 0, n) + 22 * part(e, i, 1, n + 1) + part(e, i, 2, n + 2)) / 24
    return x
def even(rules): return [{'dirichlet': 'neumann', 'neumann': 'neumann', 'periodic': 'periodic'}.get(r, 'edge') for r in rules]
def settled(x, faces, width):
    """x made constant along the normals of absorbing layers: V must not act along a stretched axis (oracle.md)."""
    for i, (lo, hi) in enumerate(faces):
        x = np.take(x, np.clip(np.arange(x.shape[i]), width * (lo == 'absorbing'), x.shape[i] - 1 - width * (hi == 'absorbing')), i)
    return x
def density(rho, v, spacing, faces, order=8, filtered=True, width=0):
    """sigma, V and the velocity to step with: rho and 1/(rho v^2) are both averaged. q = sigma p; V = (L sigma) / sigma.
    Receivers: weight / sigma at each point. Sources: weight * sigma for p_tt = v^2 (rho div(grad p / rho) + s);
    weight / sigma for a volume source, s = rho dQ/dt, which keeps reciprocity. width: of the absorbing layers."""
    rho = settled(rho, faces, width)
    beta = 1 / (rho * np.asarray(v, float)**2)
    if filtered: rho, beta = cell_average(rho, faces), cell_average(beta, faces)
    sigma = rho**-0.5
    return sigma, sum(second(sigma, i, spacing[i], even(faces[i]), order) for i in range(rho.ndim)) / sigma, (rho * beta)**-0.5

# --- 3. absorption --------------------------------------------------------------------------------------------------
def response(w, dt, mech, kappa=1.0):
    """M(omega) of the scheme: k^2 = W^2 / (c v^2 M), W = (2/dt) sin(omega dt / 2)."""
    return 1 - kappa * sum(b / (1 - a * np.exp(-1j * w * dt)) for a, b in zip(*mech))
def scheme_frequency(w, dt): return 2 / dt * np.arcsin(w * dt / 2)
def speed(w0, dt, mech, kappa):
    """c, so that the phase velocity at the frequency w0 is v once traces are warped (4.)."""
    return np.real(response(scheme_frequency(w0, dt), dt, mech, kappa)**-0.5)**2
def kappa_for(loss, w0, dt, mech):
    """kappa, so that alpha v / omega at w0 is `loss` (a number or field): 1/(2Q), or alpha0 w0^y v / w0."""
    lo, hi = 0 * np.asarray(loss, float), 0 * np.asarray(loss, float) + 0.95 / sum(b / (1 - a) for a, b in zip(*mech))
    for _ in range(60):
        s = response(scheme_frequency(w0, dt), dt, mech, (lo + hi) / 2)**-0.5
        lo, hi = np.where(-s.imag / s.real < loss, ((lo + hi) / 2, hi), (lo, (lo + hi) / 2))
    return (lo + hi) / 2
def wave_number(w, dt, v, mech, kappa, w0):
    """k of the scheme where its warped frequency is w."""
    return w / (v * np.sqrt(speed(w0, dt, mech, kappa) * response(scheme_frequency(w, dt), dt, mech, kappa)))
def law_Q(w, w0, v, Q):
    """Kjartansson's constant Q; phase velocity v at w0."""
    s = lambda x: (1j * x)**(-np.arctan(1 / Q) / np.pi)
    return w / v * s(w / w0) / s(1).real
def law_power(w, w0, v, y, alpha0):
    """alpha = alpha0 f^y (dB/(MHz^y cm)), with the dispersion that causality demands; phase velocity v at w0."""
    eta = 100 * alpha0 * (1e-6 / (2 * np.pi))**y / (20 * np.log10(np.e))  # Np/m/(rad/s)^y
    slow = -2 / np.pi * eta * np.log(w / w0) if abs(y - 1) < 1e-9 else eta * np.tan(np.pi * y / 2) * (w**(y - 1) - w0**(y - 1))
    return w * (1 / v + slow) - 1j * eta * w**y
def fit(target, band, dt, L, w0, v, n=60):
    """Mechanisms (a, b) for kappa = 1: least squares of alpha / target - 1 at n frequencies (log scale) of a band in Hz.
    b = (1 - a) g, 0 < g < 1, and dt/4 <= tau: this makes the medium passive for any kappa < 1 / sum g."""
    w = 2 * np.pi * np.geomspace(*band, n)
    alpha, limits = -target(w).imag, (np.log(dt / 4), np.log(100 / w[0]))
    mech_of = lambda x: (np.exp(-dt / np.exp(x[:L])), -np.expm1(-dt / np.exp(x[:L])) * np.exp(x[L:]))
    model = lambda x: np.r_[-wave_number(w, dt, v, mech_of(x), 1.0, w0).imag / alpha - 1, 1e-3 * np.exp(x[L:])]
    best = (np.inf, None)
    for spread in (0.3, 0.6, 1):
        for shift in (-1.5, 0, 1):
            tau = (w[0] * w[-1])**-0.5 * np.exp(shift) * (w[-1] / w[0])**(spread * (np.arange(L) - (L - 1) / 2))
            x, damping = np.r_[np.log(tau), np.full(L, np.log(min(4 * np.median(alpha * v / w) / L, 0.5)))], 1e-2
            e = model(x)
            for _ in range(150):
                J = np.stack([(model(x + 1e-6 * d) - e) / 1e-6 for d in np.eye(2 * L)], 1)
                H = J.T @ J
                new = x + np.clip(np.linalg.solve(H + damping * np.diag(np.diag(H) + 1e-12), -J.T @ e), -1, 1)
                new[:L], new[L:] = np.clip(new[:L], *limits), np.clip(new[L:], -30, -0.7)
                e_new = model(new)
                x, e, damping = (new, e_new, max(damping / 5, 1e-9)) if e_new @ e_new < e @ e else (x, e, min(4 * damping, 1e8))
            if e @ e < best[0]: best = (e @ e, x)
    return mech_of(best[1])

# --- 4. time dispersion ---------------------------------------------------------------------------------------------
def warp(x, k=1, kind='trace', transpose=False, taper=0.8):
    """K x or K^T x of series (n, ...), sampled every k steps; O(n^2). kind 'trace': exact = K scheme, where a source was
    'source' (k = 1): inject K s instead of s. 'even': instead of both, traces of an initial field at rest and no source.
    Frequencies above `taper` of the samples' highest fade out. K^T of the residual is what the adjoint injects."""
    n, N, column = len(x), 4 * len(x), (slice(None),) + (None,) * (np.ndim(x) - 1)
    psi = 2 * np.pi * np.arange(N // 2 + 1) / N  # per sample: what the scheme has
    phi = 2 * k * np.sin(psi / (2 * k))          # what is meant
    w = np.sin(np.pi / 2 * np.clip((1 - psi / np.pi) / (1 - taper), 0, 1))**2 / N * np.where((psi == 0) | (psi == np.pi), 1, 2)
    if kind == 'source': w = w * np.cos(psi / (2 * k))  # d phi / d psi: so a tone keeps its amplitude
    i, twice = np.arange(n), np.where((np.arange(n) > 0) & (kind == 'even'), 2, 1)
    def blocks():
        for at in range(0, n, 256):
            meant = np.exp(1j * np.outer(i[at:at + 256], phi))
            yield slice(at, at + 256), (meant.real if kind == 'even' else meant) * w
    if (kind == 'source') != transpose:
        return twice[column] * np.fft.fft(sum(np.tensordot(E.T, x[at], 1) for at, E in blocks()), N, axis=0).real[:n]
    had = np.fft.rfft(twice[column] * x, N, axis=0)
    return np.concatenate([np.tensordot(E, had.real if kind == 'even' else had, 1).real for at, E in blocks()])
def extra_steps(steps, every=1):
    """How many extra steps the ends of traces need before warp; afterwards the traces are cut to the run."""
    return every * int(np.ceil(max(6, 3.3 * np.cbrt(steps / 8) / every + 2))) if steps >= every else 0

# --- self-test ------------------------------------------------------------------------------------------------------
A, D, N, P, F = 'absorbing', 'dirichlet', 'neumann', 'periodic', 'fixed'
SHORT = '--short' in sys.argv[1:]
rel, one, failed = lambda a, b: np.linalg.norm(a - b) / np.linalg.norm(b), lambda i: (np.array([[i]]), np.ones((1, 1))), []
def row(name, value, limit, least=-np.inf):
    good, limits = least <= value <= limit, f'<= {limit:g}' if least == -np.inf else f'in {least:g}..{limit:g}'
    failed.extend([] if good else [name])
    print(f'{name:<98} {value:>9.3g}  {limits}{"" if good else "   OFF"}', flush=True)
def reflection(rho, v, ppw, c, kind):
    """Complex R of a 1D model whose left half is 1, 1, at the interface c - 1/2, without discretisation in time."""
    def solve(rho, v):
        n, faces, eye = len(rho), ((A, A),), np.eye(len(rho))
        if kind == 'staggered':
            gradient = sum(w * (np.eye(n + 1, n, k=r) - np.eye(n + 1, n, k=-1 - r)) for r, w in enumerate(STAGGERED))
            e = np.pad(rho, 1, mode='edge')
            L, sigma = -rho[:, None] * (gradient.T @ (2 / (e[1:] + e[:-1])[:, None] * gradient)), 1
        else:
            sigma, V, v = density(rho, v, (1.0,), faces, filtered=kind == 'filtered')
            L = second(eye, 0, 1.0, (A, A)) - np.diag(V)
        fade = np.pad(np.linspace(1, 0, n // 3)**3, (0, n - n // 3))
        return np.linalg.solve(L + np.diag((2 * np.pi / ppw / v)**2 * (1 - 1.2j * (fade + fade[::-1]))), eye[n // 3 + 6] + 0j) / sigma
    p, p0, j, ks = solve(rho, v), solve(np.ones_like(rho), np.ones_like(v)), c - 30, np.linspace(0.01, 2, 200001)
    symbol = -sum((1 if r == 0 else 2) * w * np.cos(r * ks) for r, w in enumerate(FD[8])) if kind != 'staggered' else \
        4 * sum(w * np.sin((r + .5) * ks) for r, w in enumerate(STAGGERED))**2
    return (p - p0)[j] / p0[j] * np.exp(2j * np.interp((2 * np.pi / ppw)**2, symbol, ks) * (c - .5 - j))
def test_density():
    c, rng, shape = 180, np.random.default_rng(0), (8, 8, 8)
    for ratio, vr in ((2, 1), (.5, 1), (5, 1), (2, 1.5), (10, 1)):
        rho, v = np.where(np.arange(2 * c) < c, 1, ratio), np.where(np.arange(2 * c) < c, 1, vr)
        R = (ratio * vr - 1) / (ratio * vr + 1)
        e = [abs(reflection(rho, v, 10, c, k) / R - 1) * 100 for k in ('filtered', 'unfiltered', 'staggered')]
        row(f'2 complex R of a step, rho x {ratio}, v x {vr}, 10 points: % off (unfiltered {e[1]:.1f}, staggered {e[2]:.1f})', e[0], 3)
    for ratio in (10, 30):
        rho, v, S = np.where(rng.random(shape) < .5, 1, ratio), 1 + 2 * rng.random(shape), stencil_sum(8, (1, 1, 1))
        _, V, v = density(rho, v, (1, 1, 1), ((P, P),) * 3)
        K = np.diag(V.ravel()) - sum(second(np.eye(512).reshape(shape + (512,)), i, 1, (P, P)) for i in range(3)).reshape(512, 512)
        row(f'2 greatest eigenvalue over the bound max v^2 (S + V), 3D random, rho x {ratio}',
            np.linalg.eigvalsh(v.ravel()[:, None] * K * v.ravel())[-1] / (v**2 * (S + V)).max(), 1)
        row('2 ... least eigenvalue of V - L over S', np.linalg.eigvalsh(K)[0] / S, 1, -1e-12)
    e = {}
    for filtered, n in ((False, 24), (False, 32), (True, 24), (True, 32)):
        x, h = np.arange(n) / n * 2 * np.pi, 2 * np.pi / n
        sigma, V, _ = density(np.exp(.5 * np.sin(x)), 1, (h,), ((P, P),), filtered=filtered)  # p = cos(x)
        e[filtered, n] = rel((second(sigma * np.cos(x), 0, h, (P, P)) - V * sigma * np.cos(x)) / sigma, -np.cos(x) + .5 * np.cos(x) * np.sin(x))
    for filtered, least, most in ((False, 7.5, 9), (True, 1.8, 2.3)):
        row(f'2 order for smooth rho, averaged: {filtered}', np.log(e[filtered, 24] / e[filtered, 32]) / np.log(4 / 3), most, least)
    rho, v, h, faces = np.where(rng.random((36, 36)) < .5, 1, 10), 1900 + 1500 * rng.random((36, 36)), (10, 10), ((A, A), (D, A))
    _, V, v = density(rho, v, h, faces, width=10)
    p = Problem((36, 36), h, faces, v, 1.9 / np.sqrt((v**2 * (stencil_sum(8, h) + V)).max()), width=10, V=V, mech=((.7, .98), (.05, .01)), kappa=rng.random((36, 36)) / 2)
    u = [abs(p.forward(n, rng.standard_normal((36, 36)))[0]).max() for n in (200, 2000)]
    row('2, 3 layers, rho x 10 settled in them, absorption: largest |u|, step 2000 over step 200', u[1] / u[0], 1)
def test_absorption():
    v, band, w0, h = 1500.0, (5.0, 50.0), 2 * np.pi * 20, 3.0
    dt, f = 1.7 / (v * np.sqrt(stencil_sum(8, (h,)))), np.geomspace(*band, 60)
    laws = {'Q 50': lambda w: law_Q(w, w0, v, 50), 'y 1.5': lambda w: law_power(w, w0, v, 1.5, 450), 'y 2': lambda w: law_power(w, w0, v, 2, 1e5)}
    for name, law in list(laws.items())[:1 if SHORT else None]:
        for L, limit in ((1, 34), (2, 3.3), (3, 3)):
            mech = fit(law, band, dt, L, w0, v)
            p = Problem((1800,), (h,), ((F, F),), v, dt, mech=mech, kappa=1.0, speed=speed(w0, dt, mech, 1.0))
            signal, r = ricker(np.arange(900) * dt, 25, .06)[None], (np.array([[790], [1090]]), np.ones((2, 1)))
            U = np.exp(-2j * np.pi * np.outer(f, np.arange(901) * dt)) @ warp(p.forward(900, sources=one(700), signals=signal, receivers=r)[1])
            exact = law(2 * np.pi * f)
            off = 1j * np.log(U[:, 1] / U[:, 0] * np.exp(1j * exact * 300 * h)) / (300 * h)  # k of the run minus that of the law
            row(f'3 {name}, {L} mechanisms: alpha of a run against the law, % (velocity: {100 * abs(off.real / exact.real).max():.3f} %)',
                100 * abs(off.imag / exact.imag).max(), limit)
    n, rng, mech = 24, np.random.default_rng(0), fit(laws['Q 50'], band, dt, 3, w0, v)
    kappa = kappa_for(1 / (2 * np.exp(rng.uniform(np.log(15), np.log(500), n))), w0, dt, mech)
    _, V, v = density(np.where(rng.random(n) < .5, 1, 4), 1500 * (1 + rng.random(n)), (h,), ((P, P),))
    cv2, M = speed(w0, dt, mech, kappa) * v**2, response(np.pi / dt, dt, mech, kappa).real
    K, q, Z, I = np.diag(V) - second(np.eye(n), 0, h, (P, P)), (cv2 * M)**.5, np.zeros((n, n)), np.eye(n)
    for top, name, limits in (((cv2 * M * (stencil_sum(8, (h,)) + V)).max(), 'at the bound; kappa (Q 15..500), rho, v random', (1e-7,)),
                              (np.linalg.eigvalsh(q[:, None] * K * q)[-1] / 1.001, 'with dt^2 0.1 % above the exact bound', (1, 1e-4))):
        m = (4 / top * cv2)[:, None]
        r = [[-mech[1][l] * kappa[:, None] * K, Z] + [mech[0][l] * I if i == l else Z for i in range(3)] for l in range(3)]
        first = [2 * I - m * (K + sum(x[0] for x in r)), -I] + [-m * a * I for a in mech[0]]
        row(f'3 spectral radius - 1 {name}', abs(np.linalg.eigvals(np.block([first, [I] + [Z] * 4] + r))).max() - 1, *limits)
def test_warp():
    v, h, ks = 1500.0, 10.0, np.linspace(1e-4, 3.1, 200001)
    symbol, dt = lambda k: -sum((1 if r == 0 else 2) * a * np.cos(r * k) for r, a in enumerate(FD[8])), 1.8 / (v * np.sqrt(stencil_sum(8, (h,))))
    for ppw, every in ((10, 1), (10, 2), (25, 1))[:2 if SHORT else None]:
        nd, f0 = 100 * ppw, v / (ppw * h)
        steps, s = int((nd * h / v + 3 / f0) / dt) // 8 * 8, lambda t: ricker(t, f0)
        p, plain = Problem((nd + 160,), (h,), ((A, A),), v, dt, width=40), s(np.arange(steps) * dt)
        trace = lambda s: p.forward(steps, sources=one(80), signals=s[None], receivers=one(80 + nd), every=every)[1][:, 0]
        t, fine = np.arange(0, steps + 1, every) * dt, np.linspace(0, 3.2 / f0, 3000)
        w = 2 * np.pi * np.arange(1, int(4 * f0 * 2 * t[-1])) / (2 * t[-1])
        S, kh = np.exp(-1j * np.outer(w, fine)) @ s(fine) * fine[1], np.interp((w * h / v)**2, symbol(ks), ks)
        wave = lambda kh, slope: (np.exp(1j * np.outer(t, w)) @ (S * np.exp(-1j * kh * nd) * h**2 / (1j * slope))).real / t[-1]
        exact, semi = wave(w * h / v, 2 * w * h / v), wave(kh, sum(2 * r * a * np.sin(r * kh) for r, a in enumerate(FD[8])))
        d0, d1 = trace(plain), warp(trace(warp(plain, kind='source')), every)
        row(f'4 100 wavelengths, {ppw} points, every {every}: error of time (without {rel(d0, semi):.2f}; in all {rel(d1, exact):.3f})', rel(d1, semi), 2e-3)
    n, steps = 300, 620
    f = np.exp(-(np.arange(n) - 150.)**2 / 18)
    d = Problem((n,), (h,), ((P, P),), v, dt).forward(steps, f, receivers=one(70))[1][:, 0]
    w = v / h * np.sqrt(np.maximum(symbol(2 * np.pi * np.fft.rfftfreq(n)), 0))
    exact = np.fft.irfft(np.fft.rfft(f) * np.cos(np.outer(np.arange(steps + 1) * dt, w)), n)[:, 70]
    row(f'4 initial field at rest, warp even (without {rel(d, exact):.2f})', rel(warp(d, kind='even'), exact), 1e-6)
    cut = next(i for i in range(250, steps) if abs(d[i]) > .8 * abs(d).max())
    full, mine = warp(d)[:cut], warp(d[:cut + extra_steps(cut)])[:cut]
    row(f'4 a trace cut at its peak, with extra steps (without {rel(warp(d[:cut]), full):.1e})', rel(mine, full), 1e-3)
    x, y = np.random.default_rng(0).standard_normal((2, 90, 3))
    row('4 transposes, worst dot product', max(abs((warp(x, k, kind) * y).sum() - (x * warp(y, k, kind, True)).sum())
                                               for k, kind in ((1, 'trace'), (3, 'trace'), (1, 'source'), (1, 'even'))), 1e-11)
def test_adjoint():
    cases = (((60,), ((D, A),), 0, 1), ((24, 22), ((N, A), (P, P)), 1, 1), ((24, 22), ((F, D), (N, A)), 2, 3),
             ((18, 17, 19), ((D, A), (A, A), (A, N)), 2, 1), ((18, 17, 19), ((D, A),) + ((A, A),) * 2, 2, 2))
    for shape, faces, physics, every in cases:
        rng, h, steps, e = np.random.default_rng(5), (10.0, 9.0, 8.0)[:len(shape)], 60, 1e-3
        v, sigma, V, mech, kappa = 1900 + 1500 * rng.random(shape), np.ones(shape), np.zeros(shape), ((), ()), 0.0
        if physics: sigma, V, _ = density(1 + rng.random(shape), v, h, faces, width=6)
        if physics == 2: mech, kappa = ((.7, .9, .98), (.05, .03, .01)), rng.random(shape) * .5
        dt = 1.6 / np.sqrt((v**2 * (stencil_sum(8, h) + V)).max())
        make = lambda v, dtype=np.float64: Problem(shape, h, faces, v, dt, 8, 6, 0.0, 3500.0, V, mech, kappa, dtype=dtype)
        S, R = (points(rng.random((n, len(shape))) * (np.array(shape) - 1) * h, shape, h) for n in (3, 4))
        S, R = (S[0], S[1] * sigma.ravel()[S[0]]), (R[0], R[1] / sigma.ravel()[R[0]])
        s, u0, dv = 10 * rng.standard_normal((3, steps)), rng.standard_normal(shape), .01 * v * rng.standard_normal(shape)
        run = lambda v, **k: make(v, **k).forward(steps, u0, sources=S, signals=s, receivers=R, every=every, keep=True)[1:]
        observed = run(v * (1 + .05 * rng.standard_normal(shape)))[0]
        J = lambda x: .5 * dt * ((run(v + x * dv)[0] - observed)**2).sum()
        d, *kept = run(v)
        r = dt * (d - observed)
        g = make(v).adjoint(r, R, S, every, *kept)
        dot = abs((d * r).sum() - (g['signals'] * s).sum() - (g['initial'] * u0).sum()) / (np.linalg.norm(d) * np.linalg.norm(r))
        slope = (8 * (J(e) - J(-e)) - J(2 * e) + J(-2 * e)) / (12 * e)
        taylor = [abs(J(x) - J(0) - x * (g['v_c'] * dv).sum()) for x in (1e-2, 1e-3)]
        g4 = make(v, np.float32).adjoint(r.astype('f4'), (R[0], R[1].astype('f4')), None, every, *run(v, dtype=np.float32)[1:])
        name = '5 ' + ' '.join('-'.join(x[0].upper() for x in f) for f in faces) + ('', ' density', ' density absorption')[physics]
        row(f'{name}: dot product (float32 gradients a, b, c: {" ".join(f"{rel(g4[k], g[k]):.0e}" for k in ("v_a", "v_b", "v_c"))})', dot, 1e-12)
        row(f'{name}: gradient against differences, forms a, b, c', max(abs((g[k] * dv).sum() / slope - 1) for k in ('v_a', 'v_b', 'v_c')), 1e-7)
        row(f'{name}: Taylor slope', np.log10(taylor[0] / taylor[1]), 2.03, 1.97)
def test_points():
    j, f = np.arange(-3, 5), np.linspace(0, 1, 41)[:, None]
    for ppw, b, limit in ((4, 6.2, 2e-3), (6, 8.4, 4e-4), (8, 9.3, 1e-4), (10, 9.8, 3e-5), (20, 11.3, 1e-5)):
        err = lambda w, j=j: abs((w * np.exp(2j * np.pi / ppw * (j - f))).sum(1) - 1).max()
        row(f'6 {ppw} points: interpolation, Kaiser b {b} (6.3: {err(window(j, f, 6.3)):.0e}; Lagrange {err(window(j, f, "lagrange")):.0e}; '
            f'linear {err(np.hstack([1 - f, f]), np.arange(2)):.0e})', err(window(j, f, b)), limit)
    x, u = np.array([[.3], [1.6], [2.5]]), np.sin(.6 * np.arange(30))
    i, w = points(x, (30,), (1.0,), ((D, F),), 6.3)
    row('6 ... of an odd field within 3 points of a free surface', abs((u[i] * w).sum(1) - np.sin(.6 * x[:, 0])).max(), 2e-3)

if __name__ == '__main__':
    for test in (test_density, test_absorption, test_warp, test_adjoint, test_points): test()
    print('off: ' + ', '.join(failed) if failed else 'all as expected')
    sys.exit(bool(failed))
