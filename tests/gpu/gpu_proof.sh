#!/usr/bin/env bash
# Proof on a machine with a GPU: builds with CUDA, runs the GPU tests, compares host and CUDA bits through the whole
# program, lets compute-sanitizer watch the kernels, and measures them. A failing step does not stop the later ones.
#   tests/gpu/gpu_proof.sh [BUILD_DIR]     (default build/gpu; logs in BUILD_DIR/proof)
# Needs nvcc, MPI, HDF5, cJSON, cmocka and no network. Takes less than eight minutes.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
. jobs/setup.sh environment

build=${1:-build/gpu}
logs=$build/proof
deadline=$((SECONDS + 470))
rm -rf "$logs"
mkdir -p "$logs"
build=$(cd "$build" && pwd)
logs=$build/proof
: >"$logs/table"

# step NAME LIMIT COMMAND...: runs it for at most LIMIT seconds, and never past the deadline; a row for the table.
step() {
  local name=$1 limit=$2 started=$SECONDS left=$((deadline - SECONDS)) code=0 verdict=ok
  shift 2
  echo "== $name"
  if ((left < 5)); then
    code=124
  else
    timeout -k 5 "$((limit < left ? limit : left))" "$@" >"$logs/$name.log" 2>&1 || code=$?
  fi
  if ((code)); then
    verdict="FAILED (exit $code)"
    ((code != 124)) || verdict="FAILED (time ran out)"
    tail -n 25 "$logs/$name.log" 2>/dev/null
  fi
  printf '%-22s %-24s %4d s\n' "$name" "$verdict" $((SECONDS - started)) >>"$logs/table"
  return "$code"
}

generator=()
if command -v ninja >/dev/null; then generator=(-G Ninja); fi
step gpu 20 nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
step configure 60 cmake -S . -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DSTENCIL_CUDA=ON
step build 240 cmake --build "$build" --parallel "$(nproc)"
step ctest-gpu 180 ctest --test-dir "$build" -L gpu -E end_to_end_cuda -j4 --no-tests=error --output-on-failure
step host-equals-cuda 120 python3 tests/e2e/end_to_end.py cuda "$build/stencil" "$(command -v mpirun)"

# synccheck reports "Missing wait" wherever cp.async.mbarrier.arrive completes a copy, also for the CUDA programming
# guide's own pipeline example; the four kernels built on it are left to the other tools.
declare -A options=([synccheck]="$(printf -- '--kernel-regex-exclude kns=%s ' single_stage multi_stage partitioned barrier)")
for tool in memcheck racecheck synccheck initcheck; do # side by side: they slow the host down, not the GPU
  for program in kernels statistics operations absorb; do
    # shellcheck disable=SC2086
    step "$tool-$program" 200 env STENCIL_TEST_SMALL=1 compute-sanitizer --tool "$tool" --error-exitcode 9 \
      ${options[$tool]-} "$build/tests/test_$program" cuda &
  done
done
wait

# The speed of each CUDA kernel, on one GPU: 768^3 points, 100 steps.
cat >"$logs/speed.ini" <<END
[grid]
nx = 768
ny = 768
nz = 768
[time]
steps = 100
[equation]
type = jacobi
[initial]
u = random
[output]
path = $logs/none
END
speed=()
while read -r kernel; do
  if step "speed-$kernel" 60 "$build/stencil" --benchmark 100 --report "$logs/$kernel.json" "$logs/speed.ini" \
    device.backend=cuda "device.kernel=$kernel"; then
    speed+=("$(python3 -c 'import json, sys
r = json.load(open(sys.argv[1]))
print("%-22s %8.1f Gpts/s %8.0f GB/s, copy %.0f GB/s, %.1f %% of copy"
      % (r["kernel"], r["gpts"], r["gbs"], r["copy_gbs"], 100 * r["fraction_of_copy"]))' "$logs/$kernel.json")")
  fi
done < <(sed -nE 's/^\{"([a-z0-9_]*)", BACKEND_CUDA,.*/\1/p' kernels/kernels.def)

echo
cat "$logs/gpu.log"
cat "$logs/table"
((${#speed[@]} == 0)) || printf '%s\n' "768^3, 100 steps, one GPU:" "${speed[@]}"
failures=$(grep -c FAILED "$logs/table")
echo "$failures of $(wc -l <"$logs/table") steps failed, $SECONDS s"
exit $((failures > 0))
