#!/usr/bin/env bash
# Every CUDA kernel of the program side by side, on this machine's GPU.
#   jobs/bench_kernels.sh [BUILD_DIR] [NXxNYxNZ...]
# BUILD_DIR (default build/cuda) holds a CUDA build of bench_kernels. Default sizes: 768x768x768, 1024x1024x512, and the odd
# 509x383x257 beside its even neighbour 512x384x256. Leaves one JSON file a size in $STENCIL_BENCH_DIR (default
# BUILD_DIR/bench); jobs/plot_kernels.py draws one. A summary comes last. Exit 1 if any kernel's bits are wrong. Needs no
# network; under a minute.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
. jobs/setup.sh environment
stencil_help "$@"

build=${1:-build/cuda}
shift $(($# > 0))
sizes=("$@")
((${#sizes[@]})) || sizes=(768x768x768 1024x1024x512 509x383x257 512x384x256)
results=${STENCIL_BENCH_DIR:-$build/bench}
bench=$build/tests/bench/bench_kernels
if [[ ! -x $bench ]]; then
  echo "bench_kernels.sh: error: no $bench: cmake --build $build --target bench_kernels" >&2
  exit 1
fi
mkdir -p "$results" || exit

failed=0
files=()
for size in "${sizes[@]}"; do
  IFS=x read -r nx ny nz <<<"$size"
  rm -f "$results/$size.json"
  "$bench" --json "$results/$size.json" "$nx" "$ny" "$nz" || failed=1
  echo
  [[ ! -f $results/$size.json ]] || files+=("$results/$size.json")
done
((${#files[@]})) || exit 1

# Two sizes that differ by a few points an axis are an odd one and its even neighbour: what does a point lose?
python3 - "${files[@]}" <<'END' || failed=1
import json, sys
runs = [json.load(open(path)) for path in sys.argv[1:]]
equations = list(dict.fromkeys(r["equation"] for r in runs[0]["results"]))
name = lambda run: "x".join(map(str, run["grid"]))
rows = lambda run, equation: {r["kernel"]: r for r in run["results"] if r["equation"] == equation and r["supported"]}
print(f"\nSummary, {runs[0]['gpu']}: best kernel, Gpts/s, % of copy; best of a 4-plane launch")
for run in runs:
    for equation in equations:
        best = max(rows(run, equation).values(), key=lambda r: r["gpts"])
        thin = min(rows(run, equation).values(), key=lambda r: r["thin_seconds"])
        print(f"{name(run):14s} {equation:7s} {best['kernel']:13s} {best['gpts']:6.1f} {100 * best['fraction_of_copy']:6.1f} %"
              f"   {thin['kernel']:13s} {1e6 * thin['thin_seconds']:5.1f} us")
for odd in runs:
    for even in runs:
        near = all(abs(a - b) <= 4 for a, b in zip(odd["grid"], even["grid"]))
        if not near or not any(n % 2 for n in odd["grid"]) or any(n % 2 for n in even["grid"]):
            continue
        print(f"{name(odd)}: what a point loses to {name(even)}, %")
        for equation in equations:
            mates = rows(even, equation)
            loss = {k: 100 * (1 - r["gpts"] / mates[k]["gpts"]) for k, r in rows(odd, equation).items()}
            print(f"  {equation:7s} " + "  ".join(f"{k} {v:.1f}" for k, v in loss.items()))
END
exit "$failed"
