#!/usr/bin/env python3
"""The scripts that compare: jobs/scaling.sh numbers of ranks, bench/host_peers.py and bench/time_to_accuracy.py programs.

usage: scaling.py --list | scaling.py CASE STENCIL MPIEXEC
"""
import json
import re
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import SOURCE, case, check, main


def call(program, *command):
    return program.finish(command)


def scale(program, *options):
    launcher = f"{program.mpiexec} -np"
    return call(program, SOURCE / "jobs" / "scaling.sh", "-p", program.path, "-l", launcher, "-o", "s", *options,
                "device.backend=host")


@case
def script(program):
    """On one and two ranks: a report and a row of the table for each run, with the efficiency of its kind."""
    result = scale(program, "-n", "1 2", "-e", "jacobi", "-t", "sendrecv shared", "-g", "24x20x16", "-s", "4")
    check(result.code == 0 and not result.err, f"{result}")
    lines = [line.split() for line in result.out.splitlines() if line.count("%") == 2]
    rows = {tuple(line[:6]): line[6:] for line in lines}
    check(len(rows) == 6, f"expected 6 rows:\n{result.out}")
    for kind in ("weak", "strong"):
        gpts = {}
        for transport, ranks in (("-", 1), ("sendrecv", 2), ("shared", 2)):
            name = f"jacobi.{kind}.24x20x16.steps.{'auto' if ranks == 1 else transport}.{ranks}.json"
            report = json.loads((program.folder / "s" / name).read_text())
            check(report["grid"] == [24, 20, 16 * (ranks if kind == "weak" else 1)], f"{name}: {report['grid']}")
            check(report["ranks"] == ranks and report["steps"] == 4, f"{name}: {report['ranks']} ranks")
            check(ranks == 1 or report["transport"] == transport, f"{name}: {report['transport']}")
            gpts[transport] = report["gpts"]
            shown = rows["jacobi", kind, "24x20x16", "steps", transport, str(ranks)]
            expected = 100 * gpts[transport] / ranks / gpts["-"]
            check(abs(float(shown[2]) - expected) < 0.06, f"{name}: {shown}, expected {expected:.1f} %")


YASK = """#!/bin/sh
case "$*" in
*"-bt 4 -bx 32"*"-validate"*) echo "TEST FAILED"; exit 1 ;; # as it does where the last block is narrow
*"-bt 4 -bx 32"*"-no-pre_auto_tune"*) rate=0.3G ;;
*"-bt 4"*"-no-pre_auto_tune"*) rate=0.25G ;;
*"-no-pre_auto_tune"*) rate=200M ;;
*) rate=1T ;; # while it tunes
esac
echo " auto-tuner: applying size t=2 * x=32 * y=64 * z=56"
echo "$*" >>calls
echo "best-throughput (num-points/sec): $rate"
"""


@case
def host_peers(program):
    """bench/host_peers.py: a rate for each contestant that is there, a reason for each that is not, ratios of best
    rounds; of YASK's numbers of steps a block the fastest that passes its own test, with the blocks that it found or with
    even ones, not tuned while it counts."""
    (program.folder / "bin").mkdir()
    fake = program.folder / "bin" / "yask_kernel.3axis.intel64.exe"
    fake.write_text(YASK)
    fake.chmod(0o755)
    bench = [sys.executable, "-B", SOURCE / "tests" / "bench" / "host_peers.py"]
    options = ["80", "--only", "stencil,ranks,yask", "--threads", "2", "--rounds", "3", "--seconds", "0.01", "--json",
               "p.json", "--mpirun", program.mpiexec, "--yask", ".", "--yask-steps", "0,2,4"]
    result = call(program, *bench, program.path, *options)
    check(result.code == 0, f"{result}")
    found = json.loads((program.folder / "p.json").read_text())
    rows = {(row["equation"], row["name"]): row for row in found["rows"]}
    check(set(rows) == {("jacobi", "stencil"), ("jacobi", "stencil, 2 ranks"), ("jacobi", "YASK"), ("wave", "stencil"),
                        ("wave", "stencil, 2 ranks")}, f"rows: {sorted(rows)}")
    check([(one["name"], one["equation"]) for one in found["skipped"]] == [("yask", "wave")], f"{found['skipped']}")
    for row in rows.values():
        rounds = sorted(row["rounds"])
        check(len(rounds) == 3 and rounds[0] > 0 and (row["median"], row["best"]) == (rounds[1], rounds[2]), f"{row}")
    for name, threads in (("stencil", "2 threads"), ("stencil, 2 ranks", "1 thread")):
        check(f"host, {threads}, " in rows["wave", name]["settings"], f"{rows['wave', name]}")
    yask = rows["jacobi", "YASK"]
    check(yask["best"] == 0.25 and len(yask["tried"]) == 6, f"{yask}")
    counted = (program.folder / "calls").read_text().splitlines()[-3:]
    for line in counted:
        check(line.startswith("-bt 4 -bx 40 -by 80 -bz 80 -no-pre_auto_tune -trial_steps 24 -g 80 "), f"{counted}")
    for ratio in found["ratios"]:
        best = {name: row["best"] for (equation, name), row in rows.items() if equation == ratio["equation"]}
        check(abs(ratio["stencil, 2 ranks / one"] * best["stencil"] / best["stencil, 2 ranks"] - 1) < 1e-12, f"{ratio}")
    check(abs(found["ratios"][0]["stencil / best peer"] * 0.25 / rows["jacobi", "stencil"]["best"] - 1) < 1e-12, "peer")
    result = call(program, *bench, "/bin/false", *options)
    check(result.code == 1 and "skipped: stencil" in result.out, f"{result}")


@case
def time_to_accuracy(program):
    """bench/time_to_accuracy.py: errors of this program alone, which fall with the points per wavelength, and the best times."""
    result = call(program, sys.executable, "-B", SOURCE / "tests" / "bench" / "time_to_accuracy.py", program.path, "--only", "Stencil",
                  "--wavelengths", "10")
    errors = [float(value) for value in re.findall(r"error +([0-9.]+) %", result.out)]
    check(result.code == 0 and len(errors) == 8 and errors == sorted(errors, reverse=True), f"{result}")
    check(errors[0] > 4 and errors[2] < 1.5 and errors[-1] < 0.15, f"{errors}")
    check(re.search(r"^stencil(\t[0-9.e-]+){3}\t", result.out, re.M), f"{result.out}")


@case
def mistakes(program):
    """Wrong options, and a run that cannot be: one line, exit 1."""
    wrong = {("-g", "8x8"): "NXxNYxNZ", ("-m", "odd"): "odd", ("-z",): "-z", ("-n", "two"): "two"}
    for options, word in wrong.items():
        result = scale(program, *options)
        one_line = result.err.count("\n") == 1
        check(result.code == 1 and one_line and word in result.err, f"{options}: {result}")
    result = scale(program, "-n", "2", "-e", "jacobi", "-m", "weak", "-t", "ipc", "-g", "8x8x8", "-s", "1")
    check(result.code == 1 and "it needs a GPU" in result.err, f"{result}")
    check(not list((program.folder / "s").glob("*.json")), "a failed run left a report")


if __name__ == "__main__":
    main()
