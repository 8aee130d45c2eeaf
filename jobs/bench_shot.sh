#!/usr/bin/env bash
# Time to solution of one whole shot: start, load the model, steps, write traces and the last field, exit.
#   jobs/bench_shot.sh [STENCIL [POINTS [STEPS [KEY=VALUE ...]]]]   (default build/release/stencil 256 400)
# A cube of POINTS^3 (jobs/make_model.py), absorbing layers of 20 points at five faces under a free surface, one source,
# POINTS receivers sampled every other step. In turns: the program; the same shot between fixed faces, which is the bare
# loop; and, on the host, Devito's acoustic operator with a damping layer, skipped where $PYTHON (python3) has no
# devito. KEY=VALUE goes to the program (device.backend=cuda). Prints the best of $TURNS turns (default 3); all of them go
# to $STENCIL_BENCH_DIR/shot.txt (default the current folder), which jobs/plot_shot.py draws.
set -euo pipefail
if [[ ${1-} == -h || ${1-} == --help ]]; then
  sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
  exit 0
fi
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$source/jobs/setup.sh" environment
python=${PYTHON:-python3}
stencil=$(realpath "${1:-$source/build/release/stencil}")
points=${2:-256} steps=${3:-400}
shift $(($# < 3 ? $# : 3))
results=$(realpath "${STENCIL_BENCH_DIR:-.}")/shot.txt
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
: >"$results"
"$python" "$source/jobs/make_model.py" model.h5 "$points" "$points" "$points" >/dev/null
sed "s/^end_time.*/steps = $steps/" "$source/config/shot.ini" >shot.ini

# One line a run: who, seconds in all, seconds of the steps.
record() { # WHO BEGIN END STEPS_SECONDS
  awk "BEGIN { printf \"%s %.3f %.3f\\n\", \"$1\", $3 - $2, $4 }" >>"$results"
}

shot() { # WHO KEY=VALUE...
  local who=$1 begin=$EPOCHREALTIME end far=$((8 * (points - 22))) middle=$((4 * points))
  shift
  mpirun --bind-to none -np 1 "$stencil" -q --report report.json shot.ini grid.n{x,y,z}="$points" \
    output.every="$steps" source.1.position="$middle $middle 16" \
    receivers.line="168 $middle 16 $far $middle 16 $points" "$@"
  end=$EPOCHREALTIME
  record "$who" "$begin" "$end" "$(reported seconds)"
}

reported() { # KEY
  "$python" -c 'import json, sys; print(json.load(open("report.json"))[sys.argv[1]])' "$1"
}

devito() {
  local begin=$EPOCHREALTIME seconds
  seconds=$("$python" "$source/tests/bench/devito_damped.py" model.h5 "$steps")
  record Devito "$begin" "$EPOCHREALTIME" "$seconds"
}

peer=1
[[ " $* " != *backend=cuda* ]] && "$python" -c 'import devito' 2>/dev/null || peer=0
((peer)) || echo "Devito: skipped (a GPU run, or $python has no devito)"
for ((turn = 0; turn < ${TURNS:-3}; turn++)); do
  shot absorbing "$@"
  shot fixed boundary.all=fixed boundary.z_lo=fixed "$@"
  ((!peer)) || devito
done
sed -i "1i # $points $steps $(reported device)" "$results"
"$python" "$source/jobs/plot_shot.py" "$results"
