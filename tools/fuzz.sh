#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds every target in tests/fuzz/ with clang's libFuzzer under ASan and UBSan and runs each from its corpus.
# usage: tools/fuzz.sh [SECONDS_EACH=60] [TARGET...]; a target's `// sources:` lines name what it links. FUZZ_RUNS=N ends each
# after N inputs: the committed corpus and a few mutations of it, for every `make test`. Ends with status 1 at a finding.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}; shift || true
compiler() { echo "${FUZZ_CXX:-$(command -v clang++ || command -v clang++-14 || true)}"; }
if [ -z "$(compiler)" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then  # only fuzzing needs it, so set-up does not bring it
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends clang-14 libclang-rt-14-dev >/dev/null || true
fi
cxx=$(compiler)
[ -n "$cxx" ] || { echo "fuzz: clang++ is not installed; expected clang 14 or later with compiler-rt. Nothing was fuzzed."; exit "${FUZZ_WITHOUT_CLANG:-1}"; }
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
for name in "${targets[@]}"; do
  inputs=()
  for source in $(sources_of "$name"); do inputs+=("$(object_of "$source")"); done
  "$cxx" "${flags[@]}" -fsanitize=fuzzer -o "build/fuzz/$name" "${inputs[@]}"
done
run_target() {
  local name=$1 seconds=$2 corpora=("tests/fuzz/corpus_$1") log="build/fuzz/$1.log"
  local found="build/fuzz/corpus_$name"  # what earlier runs found is kept, except where a bounded run must repeat itself
  [ -z "${FUZZ_RUNS:-}" ] || { found="build/fuzz/fresh_$name"; rm -rf "$found"; }
  mkdir -p "$found"
  "build/fuzz/$name" -max_total_time="$seconds" ${FUZZ_RUNS:+-runs="$FUZZ_RUNS"} -timeout=5 -rss_limit_mb=1024 -malloc_limit_mb=512 \
    -max_len=65536 -seed=1 -print_final_stats=1 -artifact_prefix="build/fuzz/${name}_" "$found" "${corpora[@]}" > "$log" 2>&1 ||
    { echo "fuzz: $name FAILED"; tail -60 "$log"; return 1; }
  echo "fuzz: $name, $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, no finding"
}
export -f run_target
echo "fuzz: ${targets[*]}, at most ${FUZZ_RUNS:+$FUZZ_RUNS inputs or }$seconds s each"
printf '%s\n' "${targets[@]}" | xargs -P "${JOBS:-$(nproc)}" -I{} bash -c 'run_target "$@"' _ {} "$seconds"
