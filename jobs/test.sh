#!/usr/bin/env bash
# Builds with warnings as errors and runs all tests: optimised, then under AddressSanitizer and UBSan, then under
# ThreadSanitizer. Installs what is missing first.
#   jobs/test.sh --quick   for users: whether build/release/stencil works here, in two minutes
set -euo pipefail
if [[ ${1-} == -h || ${1-} == --help ]]; then
  sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
  exit 0
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."

quick=no
presets=(ci asan-ubsan tsan)
declare -A label=([ci]=. [asan-ubsan]=asan [tsan]=tsan) # of the tests to run (tests/CMakeLists.txt)
left_out=slow
if [[ ! -e /dev/nvidiactl ]]; then left_out+='|gpu'; fi # each would start MPI to find that there is none
case "${1-}" in
  "") ;;
  --quick) quick=yes ;;
  *) echo "usage: jobs/test.sh [--quick]" >&2; exit 1 ;;
esac
set -- # a sourced script sees these arguments
. jobs/setup.sh
if [[ $quick == yes ]]; then
  stencil_build build/test-logs
  exec ctest --preset release --label-regex '^quick$' --label-exclude "$left_out" --parallel "$(nproc)"
fi
stencil_install "${stencil_test_packages[@]}" || echo "test: without them some tests are skipped" >&2
logs=build/test-logs
mkdir -p "$logs"

# TSan cannot map its shadow memory under the strongest address space randomisation, which some kernels use.
without_aslr=()
prepare_tsan() {
  echo 'int main(void) { return 0; }' >"$logs/tsan.c"
  gcc -fsanitize=thread -o "$logs/tsan" "$logs/tsan.c"
  if ! "$logs/tsan" 2>/dev/null; then
    without_aslr=(setarch -R)
    "${without_aslr[@]}" "$logs/tsan" || echo "test: this machine cannot run ThreadSanitizer at all" >&2
  fi
}

# build_preset NAME [PREFIX...]: configures and builds; its output goes to $logs.
build_preset() {
  local name=$1
  shift
  run_logged "$logs/$name.configure" "$@" cmake --preset "$name" &&
    run_logged "$logs/$name.build" "$@" cmake --build --preset "$name" --parallel "$(nproc)"
}

# test_preset NAME: ctest's output goes to the screen and to $logs/NAME.ctest.
test_preset() {
  echo "== $1: built after $SECONDS s, testing"
  # One more than there are cores: tests spend a third of their time waiting.
  "${without_aslr[@]}" ctest --preset "$1" --label-regex "${label[$1]}" --label-exclude "$left_out" \
    --parallel "$(($(nproc) + 1))" 2>&1 |
    tee "$logs/$1.ctest"
}

# In the background, in a process group of its own, which ends with this script.
builder=
begin_to_build() {
  set -m
  build_preset "$@" &
  builder=$!
  set +m
}
trap '[[ -z $builder ]] || kill -- "-$builder" 2>/dev/null || true' EXIT

failed=()
rm -f "$logs"/*.{configure,build,ctest}
begin_to_build "${presets[0]}"
for i in "${!presets[@]}"; do
  preset=${presets[i]} built=yes next=${presets[i + 1]-}
  wait "$builder" || built=no
  if [[ $next ]]; then begin_to_build "$next" nice -n 19; fi # on what these tests leave of the cores
  if [[ $preset == tsan ]]; then prepare_tsan; fi
  { [[ $built == yes ]] && test_preset "$preset"; } || failed+=("$preset")
done

echo
echo "total time $((SECONDS / 60)) min $((SECONDS % 60)) s"
closing_lines() {
  echo "== $1: $2"
  if [[ -f $logs/$1.ctest ]]; then sed -n '/% tests passed/,$p' "$logs/$1.ctest"; else echo "did not build"; fi
}
for preset in "${presets[@]}"; do
  [[ " ${failed[*]} " == *" $preset "* ]] || closing_lines "$preset" passed
done
for preset in "${failed[@]}"; do
  closing_lines "$preset" FAILED
done
exit $((${#failed[@]} > 0))
