#!/usr/bin/env python3
"""Does `kernel = auto` choose well? Runs a configuration with auto and with each kernel by name, in rounds.

  tests/bench/auto.py STENCIL CONFIG [--steps N] [--rounds N] [section.key=value ...]

auto measures anew in each round. Prints the best of all rounds, in Gpts/s, and what auto loses to the best named kernel.
"""
import argparse
import json
import os
import subprocess
import tempfile


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stencil")
    parser.add_argument("config")
    parser.add_argument("--steps", default="200")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("override", nargs="*")
    return parser.parse_intermixed_args()


def gpts(a, kernel):
    """Gpts/s of one run, and the kernel that it ran; None where this machine cannot run it."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        command = [a.stencil, "-q", "--benchmark", a.steps, "--report", report, a.config, *a.override]
        command.append(f"device.kernel={kernel}")
        run = subprocess.run(command, env={**os.environ, "XDG_CACHE_HOME": folder}, capture_output=True, text=True)
        if run.returncode:
            print(f"{kernel}: {run.stderr.strip()}")
            return None
        with open(report) as file:
            found = json.load(file)
    return found["gpts"], found["kernel"], found["backend"]


def main():
    a = arguments()
    first = gpts(a, "auto")
    if not first:
        raise SystemExit(1)
    listed = subprocess.run([a.stencil, "--version"], check=True, capture_output=True, text=True).stdout.splitlines()
    words = [line.split() for line in listed if line.startswith("  ")]
    names = dict.fromkeys(w[2] for w in words if len(w) > 3 and w[1] == first[2])
    best, chosen = {}, []
    for _ in range(a.rounds):
        for kernel in ["auto", *names]:
            found = gpts(a, kernel)
            if found:
                best[kernel] = max(best.get(kernel, 0), found[0])
                chosen += [found[1]] if kernel == "auto" else []
    for kernel, speed in sorted(best.items(), key=lambda row: -row[1]):
        print(f"{kernel:16s} {speed:8.3f} Gpts/s")
    named = max((speed, kernel) for kernel, speed in best.items() if kernel != "auto")
    print(f"auto took {', '.join(dict.fromkeys(chosen))}: {100 * (1 - best['auto'] / named[0]):.1f} % behind {named[1]}")


if __name__ == "__main__":
    main()
