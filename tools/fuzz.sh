#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds every target in tests/fuzz/ with clang's libFuzzer under ASan and UBSan and runs each from its corpus.
# usage: tools/fuzz.sh [SECONDS_EACH=60] [TARGET...]; a target's `// sources:` lines name what it links. FUZZ_RUNS=N ends each
# after N inputs: the committed corpus and a few mutations of it, for every `make test`. Ends with status 1 at a finding.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}; shift || true
cxx=${FUZZ_CXX:-$(command -v clang++ || command -v clang++-14 || true)}
[ -n "$cxx" ] || { echo "fuzz: clang++ is not installed; expected clang 14 or later with compiler-rt"; exit "${FUZZ_WITHOUT_CLANG:-1}"; }
flags=(-std=c++20 -O1 -g1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -DNDEBUG
       -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION -Isrc -Itests)
objects=build/fuzz/objects; mkdir -p "$objects"
cache=$(command -v ccache || true)
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD}
targets=()
for target in $(grep -l '^// sources: ' tests/fuzz/*.cpp); do
  name=$(basename "$target" .cpp)
  [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
  targets+=("$name")
done
sources_of() { # shellcheck disable=SC2046
  echo "tests/fuzz/$1.cpp" $(sed -n 's|^// sources: ||p' "tests/fuzz/$1.cpp")
}
object_of() { echo "$objects/$(echo "${1%.cpp}" | tr / +).o"; }
# Objects are shared between targets; what is newer than all headers and its source stays.
newest=$(find src tests/fuzz tools/fuzz.sh \( -name '*.h' -o -name '*.inl' -o -name fuzz.sh \) -printf '%T@ %p\n' | sort -n | tail -1 | cut -d' ' -f2-)
for name in "${targets[@]}"; do
  for source in $(sources_of "$name"); do
    object=$(object_of "$source")
    [ "$object" -nt "$source" ] && [ "$object" -nt "$newest" ] || printf '%s %s\n' "$source" "$object"
  done
done | sort -u | xargs -r -P "${JOBS:-$(nproc)}" -L1 bash -c '"${@:1:$#-2}" -c -o "${@: -1}" "${@: -2:1}"' _ ${cache:+"$cache"} "$cxx" "${flags[@]}"
failed=0
for name in "${targets[@]}"; do
  inputs=()
  for source in $(sources_of "$name"); do inputs+=("$(object_of "$source")"); done
  "$cxx" "${flags[@]}" -fsanitize=fuzzer -o "build/fuzz/$name" "${inputs[@]}"
  mkdir -p "build/fuzz/corpus_$name"
  echo "fuzz: $name, at most ${FUZZ_RUNS:+$FUZZ_RUNS inputs or }$seconds s"
  corpora=("tests/fuzz/corpus_$name")
  [ -n "${FUZZ_RUNS:-}" ] || corpora=("build/fuzz/corpus_$name" "${corpora[@]}")
  [ -z "${FUZZ_RUNS:-}" ] || { rm -rf "build/fuzz/fresh_$name"; mkdir "build/fuzz/fresh_$name"; corpora=("build/fuzz/fresh_$name" "${corpora[@]}"); }
  "build/fuzz/$name" -max_total_time="$seconds" ${FUZZ_RUNS:+-runs="$FUZZ_RUNS"} -timeout=5 -rss_limit_mb=1024 -malloc_limit_mb=512 \
    -max_len=65536 -seed=1 -print_final_stats=1 -artifact_prefix="build/fuzz/${name}_" "${corpora[@]}" > "build/fuzz/$name.log" 2>&1 || { failed=1; tail -60 "build/fuzz/$name.log"; continue; }
  grep -E "number_of_executed_units|peak_rss" "build/fuzz/$name.log"
done
exit $failed
