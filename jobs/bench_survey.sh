#!/usr/bin/env bash
# What a shot of a survey takes, from the beginning of the first to the last file; the start of the program apart.
#   jobs/bench_survey.sh [STENCIL [SHOTS [KEY=VALUE ...]]]   (default build/release/stencil, 100 on a GPU and 50 without)
# On a GPU: 512^3 400 steps, 256^3 600, 128^3 1000, and 2D 1200 x 400, 2000 steps; without one 64^3, 400 steps. Layers of 20
# points at five faces (64^3: 10), a velocity field, one source, traces alone. KEY=VALUE goes to the program.
# RANKS=2: groups of one rank each. CASES="NX,NY,NZ,STEPS ..." takes others.
# PEERS=FOLDER: then runs FOLDER/deepwave_shot.py, sweep_shot.py and peers_2d.py, where they are there, on the same machine.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=jobs/setup.sh
. "$source/jobs/setup.sh" environment
stencil_help "$@"
stencil=$(realpath "${1:-$source/build/release/stencil}")
gpu=''
if "$stencil" --version | grep -q cuda && nvidia-smi -L > /dev/null 2>&1; then gpu=1; fi
shots=${2:-$((gpu ? 100 : 50))}
shift $(($# < 2 ? $# : 2))
cases=${CASES:-64,64,64,400}
if [[ $gpu && -z ${CASES-} ]]; then cases='512,512,512,400 256,256,256,600 128,128,128,1000 1200,1,400,2000'; fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
printf '%-16s %6s %10s %10s %10s %9s\n' grid steps 'ms a shot' 'its steps' 'start, s' overhead
for one in $cases; do
  IFS=, read -r nx ny nz steps <<< "$one"
  "${PYTHON:-python3}" "$source/jobs/make_model.py" model.h5 "$nx" "$ny" "$nz" > /dev/null
  sed "s/^end_time.*/steps = $steps/; /^\[boundary\]/,/^\[source/{/^z_lo/d}" "$source/config/shot.ini" > shot.ini
  for ((i = 0; i < shots; i++)); do
    echo "'source.1.position=$((8 * (nx / 4) + 4 * i * nx / shots)) $((4 * ny)) 16'"
  done > shots.txt
  begin=$EPOCHREALTIME
  mpirun --bind-to none -np "${RANKS:-1}" "$stencil" -q --report report.json shot.ini grid.n{x="$nx",y="$ny",z="$nz"} \
    boundary.width=$((nx < 100 ? 10 : 20)) receivers.line="160 $((4 * ny)) 16 $((8 * (nx - 22))) $((4 * ny)) 16 $((nx < 100 ? nx : 100))" \
    boundary.z_lo=dirichlet output.path=line output.final=off output.every=0 survey.shots=shots.txt "$@"
  "${PYTHON:-python3}" - "$one" "$EPOCHREALTIME" "$begin" << 'END'
import json, sys
r = json.load(open("report.json"))
(*n, steps), whole = sys.argv[1].split(","), float(sys.argv[2]) - float(sys.argv[3])
each = r["seconds"] / r["shots"]
print(f"{' x '.join(n):16} {steps:>6} {1e3 * each:10.2f} {1e3 * each * (1 - r['overhead_fraction']):10.2f} "
      f"{whole - r['seconds']:10.2f} {100 * r['overhead_fraction']:7.2f} %", flush=True)
END
  rm -rf line
done
for peer in 'deepwave_shot.py '"$stencil" sweep_shot.py 'peers_2d.py deepwave' 'peers_2d.py sweep'; do
  script=${PEERS-}/${peer%% *}
  if [[ -n ${PEERS-} && -f $script ]]; then
    echo "beside it: $peer"
    if [[ $peer == *' '* ]]; then "${PYTHON:-python3}" "$script" "${peer#* }"; else "${PYTHON:-python3}" "$script"; fi
  fi
done
