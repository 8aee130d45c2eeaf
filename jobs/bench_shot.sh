#!/usr/bin/env bash
# Time to solution of one whole shot: start, load the model, steps, write traces and the last field, exit.
#   jobs/bench_shot.sh [STENCIL [POINTS [STEPS [KEY=VALUE ...]]]]   (default build/release/stencil 256 400)
# A cube of POINTS^3 (jobs/make_model.py), absorbing layers of 20 points at five faces under a free surface, one source,
# POINTS receivers sampled every other step. In turns: the program; the same shot between fixed faces, which is the bare
# loop; and, on the host, Devito's acoustic operator with a damping layer, skipped where $PYTHON (python3) has no devito. KEY=VALUE
# goes to the program (device.backend=cuda). Prints the best of $TURNS turns (default 3); all of them go to
# $STENCIL_BENCH_DIR/shot.txt (default the current folder).
set -euo pipefail
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
"$python" "$source/jobs/make_model.py" model.h5 "$points" "$points" "$points" >advice.txt
sed "s/^end_time.*/steps = $steps/" "$source/config/shot.ini" >shot.ini

# One line a run: who, seconds in all, seconds of the steps.
record() { # WHO BEGIN STEPS_SECONDS
  "$python" -c 'import sys; print(sys.argv[1], float(sys.argv[3]) - float(sys.argv[2]), sys.argv[4])' \
    "$1" "$2" "$EPOCHREALTIME" "$3" >>"$results"
}

shot() { # WHO KEY=VALUE...
  local who=$1 begin=$EPOCHREALTIME far=$((8 * (points - 22))) middle=$((4 * points)) end
  shift
  mpirun --bind-to none -np 1 "$stencil" -q --report report.json shot.ini grid.n{x,y,z}="$points" \
    output.every="$steps" source.1.position="$middle $middle 16" \
    receivers.line="168 $middle 16 $far $middle 16 $points" "$@"
  end=$("$python" -c 'import json; print(json.load(open("report.json"))["seconds"])')
  record "$who" "$begin" "$end"
}

devito() {
  local begin=$EPOCHREALTIME seconds
  seconds=$("$python" "$source/tests/bench/devito_damped.py" model.h5 "$steps")
  record Devito "$begin" "$seconds"
}

peer=1
[[ " $* " != *backend=cuda* ]] && "$python" -c 'import devito' 2>/dev/null || peer=0
((peer)) || echo "Devito: skipped (a GPU run, or $python has no devito)"
for ((turn = 0; turn < ${TURNS:-3}; turn++)); do
  shot absorbing "$@"
  shot fixed boundary.all=fixed boundary.z_lo=fixed "$@"
  ((!peer)) || devito
done
"$python" - "$results" "$points" "$steps" <<'END'
import sys
runs = {}
for line in open(sys.argv[1]):
    who, whole, steps = line.split()
    runs.setdefault(who, []).append((float(whole), float(steps)))
work = int(sys.argv[2])**3 * int(sys.argv[3]) * 1e-9
print(f"{sys.argv[2]}^3 points, {sys.argv[3]} steps{'':6s}whole run, s   steps, s   the rest, s   Gpts/s in the steps")
best = {who: (min(w for w, _ in all), min(s for _, s in all), min(w - s for w, s in all)) for who, all in runs.items()}
for who, (whole, steps, rest) in best.items():
    print(f"{who:28s}{whole:12.2f}{steps:11.2f}{rest:14.2f}{work / steps:22.3f}")
for who in list(best)[1:]:
    print(f"absorbing / {who}: {best[who][1] / best['absorbing'][1]:.2f} times its speed in the steps, "
          f"{best[who][0] / best['absorbing'][0]:.2f} in the whole run")
END
