#!/usr/bin/env bash
# Time to solution of one whole shot: start, load the model, steps, write traces and the last field, exit.
#   jobs/bench_shot.sh [STENCIL [POINTS [STEPS [KEY=VALUE ...]]]]   (default build/release/stencil 256 400)
# A cube of POINTS^3 (jobs/make_model.py), absorbing layers of 20 points at five faces under a free surface, one source,
# POINTS receivers sampled every other step; in rounds with the same shot between fixed faces, which is the bare loop.
# KEY=VALUE goes to the program (device.backend=cuda). Prints the best of $ROUNDS rounds (default 3).
# tests/bench/host_peers.py --equations layers compares the steps with Devito's.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=jobs/setup.sh
. "$source/jobs/setup.sh" environment
stencil_help "$@"
stencil=$(realpath "${1:-$source/build/release/stencil}")
points=${2:-256} steps=${3:-400}
shift $(($# < 3 ? $# : 3))
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" "$source/jobs/make_model.py" model.h5 "$points" "$points" "$points" >/dev/null
sed "s/^end_time.*/steps = $steps/" "$source/config/shot.ini" >shot.ini

shot() { # NAME KEY=VALUE...   a line: name, seconds in all, Gpts/s and seconds of the steps
  local name=$1 begin=$EPOCHREALTIME far=$((8 * (points - 22))) middle=$((4 * points))
  shift
  mpirun --bind-to none -np 1 "$stencil" -q --report report.json shot.ini grid.n{x,y,z}="$points" \
    output.every="$steps" source.1.position="$middle $middle 16" \
    receivers.line="168 $middle 16 $far $middle 16 $points" "$@"
  python3 -c 'import json, sys; r = json.load(open("report.json")); print(sys.argv[1], sys.argv[2], r["gpts"], r["seconds"])' \
    "$name" "$(awk "BEGIN { print $EPOCHREALTIME - $begin }")"
}

for ((round = 0; round < ${ROUNDS:-3}; round++)); do
  shot absorbing "$@"
  shot fixed boundary.all=fixed boundary.z_lo=fixed "$@"
done | sort -k 2,2n | awk '!seen[$1]++ { printf "%-10s %8.2f s in all, steps %8.2f s, %.4g Gpts/s\n", $1, $2, $4, $3 }'
