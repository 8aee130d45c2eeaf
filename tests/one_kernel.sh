#!/usr/bin/env bash
# One kernel alone: its bits beside the oracle, then its speed in each equation that it computes.
#   tests/one_kernel.sh NAME [POINTS [BUILD]]     a cube of POINTS (256) a side; BUILD: build/release, its programs
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. jobs/setup.sh environment
name=${1:?usage: tests/one_kernel.sh NAME [POINTS [BUILD]]} points=${2:-256} build=${3:-build/release}

backend=$(sed -nE "s/^\{\"$name\", BACKEND_(\w+), .*/\1/p" kernels/kernels.def | tr '[:upper:]' '[:lower:]')
if [[ ! $backend ]]; then
  echo "one_kernel: kernels/kernels.def has no kernel $name" >&2
  exit 1
fi
equations=$(sed -nE "s/^EQUATION\(\w+, (\w+), .*/\1/p" kernels/equations.def)
if [[ $backend == cuda ]]; then on=cuda; fi
"$build/tests/test_kernels" ${on-} "$name"
while read -r equation; do
  "$build/stencil" --benchmark 100 config/jacobi.ini "equation.type=$equation" "device.backend=$backend" \
    "device.kernel=$name" "grid.nx=$points" "grid.ny=$points" "grid.nz=$points" report.progress=off |
    sed -nE "s|^ +([0-9.e+-]+ Gpts/s.*)|$equation: \1|p"
done <<<"$equations"
