#!/usr/bin/env bash
# How the program scales: `stencil --benchmark` over numbers of ranks, weak (points a rank) and strong (points in all).
#   jobs/scaling.sh [options] [section.key=value ...]
#     -p PROGRAM     default $STENCIL, or build/release/stencil
#     -n "1 2 4"     numbers of ranks; default powers of two up to the GPUs of this machine, or its cores;
#                    in a Slurm job up to its tasks
#     -e "jacobi"    equations: jacobi, heat, wave; default "jacobi wave"
#     -m "weak"      weak, strong; default both
#     -t "auto"      transports; default auto. One rank needs none
#     -c "steps"     schedules: steps, persistent; default steps
#     -g NXxNYxNZ    points, of a rank (weak) or in all (strong); default 768x768x768 on GPUs, 192x192x192 on cores
#     -s STEPS       default 200 on GPUs, 40 on cores
#     -l LAUNCHER    what comes before the number of ranks; default "mpirun -np", in a Slurm job "srun -n"
#     -o FOLDER      default build/scaling. Reports of other runs that it holds stay, and are in the table too
# Everything else goes to the program, e.g. device.kernel=bulk_tensor. Leaves one JSON report a run in FOLDER, named
# EQUATION.KIND.SIZE.SCHEDULE.TRANSPORT.RANKS.json, and its log beside it. Without a GPU a rank has one thread. The
# table: Gpts/s of all ranks, ms a step, efficiency against the same on one rank, and the part of a step in which
# communication was not hidden. Exit 1 if a run failed. Needs no network.
set -uo pipefail

usage() { sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; }
mistake() {
  echo "scaling.sh: error: $*" >&2
  exit 1
}
if [[ ${1-} == --help ]]; then
  usage
  exit 0
fi
where=$(dirname "${BASH_SOURCE[0]}")
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU') || gpus=0

program=${STENCIL:-$where/../build/release/stencil}
out=$where/../build/scaling
counts='' equations='jacobi wave' kinds='weak strong' transports=auto schedules=steps launcher='mpirun -np'
[[ -z ${SLURM_JOB_ID-} ]] || launcher='srun -n'
size=768x768x768 steps=200
if ((gpus == 0)); then size=192x192x192 steps=40; fi
while getopts :p:n:e:m:t:c:g:s:l:o:h option; do
  case $option in
    p) program=$OPTARG ;;
    n) counts=$OPTARG ;;
    e) equations=$OPTARG ;;
    m) kinds=$OPTARG ;;
    t) transports=$OPTARG ;;
    c) schedules=$OPTARG ;;
    g) size=$OPTARG ;;
    s) steps=$OPTARG ;;
    l) launcher=$OPTARG ;;
    o) out=$OPTARG ;;
    h) usage && exit ;;
    *) mistake "-$OPTARG: no such option, or it lacks its value; --help lists them" ;;
  esac
done
shift $((OPTIND - 1))
overrides=("$@")
set -- # a sourced script sees these arguments
[[ $size =~ ^[1-9][0-9]*x[1-9][0-9]*x[1-9][0-9]*$ ]] || mistake "-g $size: expected NXxNYxNZ"
for kind in $kinds; do [[ $kind == weak || $kind == strong ]] || mistake "-m $kind: expected weak or strong"; done
for n in $counts; do [[ $n =~ ^[1-9][0-9]*$ ]] || mistake "-n $n: expected numbers of ranks"; done
[[ -x $program ]] || mistake "no program at $program: build it first, or name it with -p"
if [[ -z $counts ]]; then
  for ((n = 1; n <= ${SLURM_NTASKS:-(gpus ? gpus : $(nproc))}; n *= 2)); do counts+=" $n"; done
fi
# shellcheck source=jobs/setup.sh
. "$where/setup.sh" environment
mkdir -p "$out" || exit
IFS=x read -r nx ny nz <<<"$size"
((gpus)) || overrides=(device.threads=1 "${overrides[@]}") # a rank on a core, so that ranks add cores

# run EQUATION KIND SCHEDULE TRANSPORT RANKS
run() {
  local planes=$nz name=$out/$1.$2.$size.$3.$4.$5 launch
  [[ $2 == strong ]] || planes=$((nz * $5))
  read -ra launch <<<"$launcher"
  rm -f "$name.json"
  printf '%s\n' '[grid]' "nx = $nx" "ny = $ny" "nz = $planes" '[time]' 'steps = 1' '[equation]' "type = $1" \
    >"$out/$1.ini"
  echo "$1 $2 $size $3 $4, ranks: $5"
  "${launch[@]}" "$5" "$program" --benchmark "$steps" --report "$name.json" "$out/$1.ini" "parallel.transport=$4" \
    "parallel.schedule=$3" "output.path=$out/field" "${overrides[@]}" >"$name.log" 2>&1 && return
  rm -f "$name.json"
  echo "scaling.sh: error: $(grep -m 1 'error: ' "$name.log" || echo "see $name.log")" >&2
  return 1
}

failed=0
for equation in $equations; do
  for kind in $kinds; do
    for schedule in $schedules; do
      for n in $counts; do
        ways=$transports
        ((n > 1)) || ways=auto
        for transport in $ways; do run "$equation" "$kind" "$schedule" "$transport" "$n" || failed=1; done
      done
    done
  done
done

python3 - "$out" <<'END' || failed=1
import json, sys
from pathlib import Path
runs = {}
for path in Path(sys.argv[1]).glob("*.json"):
    name = path.stem.split(".")
    if len(name) == 6:
        runs[(*name[:5], int(name[5]))] = json.loads(path.read_text())
heads = f"{'transport':10s} {'ranks':>5s} {'Gpts/s':>9s} {'ms a step':>10s} {'efficiency':>10s} {'exposed':>8s}"
print(f"\n{'':40s} {heads}")
for key, r in sorted(runs.items()):
    one = runs.get((*key[:4], "auto", 1))
    efficiency = f"{100 * r['gpts'] / r['ranks'] / one['gpts']:8.1f} %" if one else "-"
    print(f"{' '.join(key[:4]):40s} {r['transport'] if r['ranks'] > 1 else '-':10s} {r['ranks']:5d} {r['gpts']:9.4g} "
          f"{1e3 * r['seconds'] / r['steps']:10.4g} {efficiency:>10s} {100 * r['exposed_comm_fraction']:6.2f} %")
END
exit "$failed"
