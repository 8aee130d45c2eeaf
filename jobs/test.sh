#!/usr/bin/env bash
# Builds with warnings as errors and runs all tests: optimised, then under AddressSanitizer and UBSan, then under
# ThreadSanitizer. Installs what is missing first.   jobs/test.sh [--quick]   --quick leaves the sanitizers out.
set -euo pipefail
if [[ ${1-} == -h || ${1-} == --help ]]; then
  sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
  exit 0
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."

presets=(ci asan-ubsan tsan)
declare -A label=([ci]=. [asan-ubsan]=asan [tsan]=tsan) # of the tests to run (tests/CMakeLists.txt)
left_out=slow
if [[ ! -e /dev/nvidiactl ]]; then left_out+='|gpu'; fi # each would start MPI to find that there is none
case "${1-}" in
  "") ;;
  --quick) presets=(ci) ;;
  *) echo "usage: jobs/test.sh [--quick]" >&2; exit 1 ;;
esac
set -- # a sourced script sees these arguments
. jobs/setup.sh
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

# test_preset NAME: configure, build, test; ctest's output goes to the screen and to $logs/NAME.ctest.
test_preset() {
  local name=$1 started=$SECONDS
  run_logged "$logs/$name.configure" cmake --preset "$name" || return
  run_logged "$logs/$name.build" cmake --build --preset "$name" --parallel "$(nproc)" || return
  echo "== $name: built in $((SECONDS - started)) s, testing"
  # One more than there are cores: tests spend a third of their time waiting.
  "${without_aslr[@]}" ctest --preset "$name" --label-regex "${label[$name]}" --label-exclude "$left_out" \
    --parallel "$(($(nproc) + 1))" 2>&1 |
    tee "$logs/$name.ctest"
}

failed=()
for preset in "${presets[@]}"; do
  rm -f "$logs/$preset".*
  if [[ $preset == tsan ]]; then prepare_tsan; fi
  test_preset "$preset" || failed+=("$preset")
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
