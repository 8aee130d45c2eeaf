#!/usr/bin/env python3
"""The acoustic wave equation with density by deepwave, as devito_shot.py; of one axis.   deepwave_shot.py IN.npz OUT.npz"""
import sys

import deepwave
import numpy as np
import torch

from analytic import ricker


def main():
    case = np.load(sys.argv[1])
    h, dt, steps = float(case["spacing"][0]), float(case["dt"]), int(case["steps"])
    field = lambda name: torch.from_numpy(np.ascontiguousarray(case[name], np.float32))
    at = lambda places: torch.from_numpy(np.round(np.atleast_2d(places) / h).astype(int))[None]
    signal = torch.from_numpy(ricker(np.arange(steps + 1) * dt, float(case["f0"])).astype(np.float32))[None, None]
    out = deepwave.acoustic(field("model"), field("density"), h, dt, source_amplitudes_volume_rate=signal, accuracy=int(case["order"]),
                            source_locations_volume_rate=at(case["source"]), receiver_locations_p=at(case["receivers"]),
                            pml_freq=float(case["f0"]))
    np.savez(sys.argv[2], traces=out.receiver_amplitudes_p[0].T.numpy())


if __name__ == "__main__":
    main()
