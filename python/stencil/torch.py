"""forward() as a function that torch differentiates, once, in the velocity, in signals and in the initial field."""
import torch

from .errors import Error
from .shots import Shot


def forward(sim, velocity, shots, *, initial=None):
    """The traces of each shot, a tuple of tensors (samples, receivers) on the velocity's device. Gradients reach
    `velocity`, the `signal` of shots that is a tensor, and `initial`; the gradient is the exact one of
    sim.gradient."""
    shots = [shots] if isinstance(shots, Shot) else list(shots)
    if not isinstance(velocity, torch.Tensor) or not all(isinstance(shot, Shot) for shot in shots):
        raise Error("torch.forward: expected a tensor, and a list of st.Shot")
    signals = (shot.signal if isinstance(shot.signal, torch.Tensor) else None for shot in shots)
    return Forward.apply(sim, shots, velocity, initial, *signals)


def detached(shots):
    """The shots with signals that nothing differentiates."""
    return [Shot(shot.position, shot.signal.detach(), shot.receivers) if isinstance(shot.signal, torch.Tensor) else shot
            for shot in shots]


def tensor(array, like):
    """A gradient as autograd wants it. Of a signal that all sources of a shot share, the sum; its rows after the run
    are 0."""
    found = torch.as_tensor(array).to(like.device, like.dtype)
    if found.numel() == like.numel():
        return found.reshape(like.shape)
    result = torch.zeros_like(like).reshape(len(like), -1)
    rows = min(len(result), len(found))
    result[:rows] = found[:rows].sum(1, keepdim=True) if result.shape[1] < found.shape[1] else found[:rows]
    return result.reshape(like.shape)


class Forward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, sim, shots, velocity, initial, *signals):
        ctx.sim, ctx.shots = sim, detached(shots)
        ctx.save_for_backward(velocity, initial, *signals)
        field = None if initial is None else initial.detach()
        traces = sim.forward(velocity.detach(), ctx.shots, initial=field)
        return tuple(torch.as_tensor(one).to(velocity.device) for one in traces)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *derivatives):
        velocity, initial, *signals = ctx.saved_tensors
        needed = ctx.needs_input_grad[2:]
        of = ["velocity"] + ["initial"] * needed[1] + ["signals"] * any(needed[2:])
        field = None if initial is None else initial.detach()
        given = [one.detach().float().cpu().numpy() for one in derivatives]
        found = ctx.sim.gradient(velocity.detach(), ctx.shots, misfit=lambda shot, traces: (0.0, given[shot]), of=of,
                                 initial=field)
        back = [tensor(found.velocity, velocity) if needed[0] else None]
        back += [tensor(found.initial, initial) if needed[1] else None]
        back += [tensor(found.signals[i], signal) if needed[2 + i] else None for i, signal in enumerate(signals)]
        return None, None, *back
