#!/usr/bin/env bash
# Words that names and comments must not use, since the field has its own: docs/DESIGN.md's glossary has those it lacks.
#   words.sh   prints FILE:LINE, the word and its replacement for each use; then plants each word in a copy, where it must
#              find it
set -euo pipefail
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# words, also as a part of a name | replacement | files that may use them
words='
addend addends                           | layer term
star stars                               | stencil | src/survey/report.c tests/e2e/python_module.py
sweep sweeps sweeping                    | interior kernel, update | tests/bench/ jobs/bench_survey.sh
walk walks march marches course courses  | tile loop, update, rows | io/hdf5/field_io.c
seal seals sealed                        | header of a checkpoint
leg legs                                 | run, process
heed heeds heeded                        | poll
kin hurry hurries astray roomy followers | same, few, drift, deep, concurrent
told                                     | logged, received
stacked                                  | of a batch
io_way                                   | io_access
'

# uses ROOT: prints "FILE:LINE: WORD: say REPLACEMENT" of every use below ROOT.
uses() {
  local list replacement allowed place word file
  while IFS='|' read -r list replacement allowed; do
    list=$(xargs <<<"$list")
    [[ $list ]] || continue
    while IFS=: read -r file place word; do
      for prefix in $allowed tests/words.sh; do [[ $file == "$prefix"* ]] && continue 2; done
      echo "$file:$place: ${word//[^[:alnum:]_]/}: say$replacement"
    done < <(cd "$1" && grep -rnowiE --include='*.[ch]' --include='*.cu' --include='*.cuh' --include='*.def' --include='*.py' \
      --include='*.sh' --include='*.sbatch' "(\w*_)?(${list// /|})(_\w*)?" src kernels io config include jobs tests || true)
  done <<<"$words"
}

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
found=$(uses "$tree")
if [[ $found ]]; then echo "$found"; exit 1; fi
mkdir "$copy"/{src,kernels,io,config,include,jobs,tests}
planted=$(cut -d'|' -f1 <<<"$words" | xargs -n 1)
for word in $planted; do
  printf 'int a_%s; /* %s. */\n' "$word" "${word^}" >"$copy/kernels/$word.h"
done
found=$(uses "$copy")
for word in $planted; do
  if [[ $(grep -c "^kernels/$word.h:1:" <<<"$found") != 2 ]]; then echo "words: self-test: '$word' was not found"; exit 1; fi
done
echo "words: none of $(wc -w <<<"$planted") words is used, and each is found where it is planted"
