#!/usr/bin/env bash
# Runs one command of patchgate in a repository, and leaves the results below $RESULTS. All it is told comes in the
# environment and stays quoted: a patch's path is whatever its author called it. Without PATCHES the table's are judged.
#   WORKSPACE with the repository, RESULTS, SESSION (gate, sweep or bisect), TORCH, DEVICE; PATCHES and ARGUMENTS, one a line
set -uo pipefail
cd "$WORKSPACE" || exit 2
mapfile -t patches < <(printf '%s' "${PATCHES:-}")
mapfile -t more < <(printf '%s' "${ARGUMENTS:-}")
mkdir -p "$RESULTS"
if [ "${TORCH:-}" = nightly ]; then
  made=(uv pip install --quiet --python "$RESULTS.nightly/bin/python")
  uv venv --quiet "$RESULTS.nightly" && "${made[@]}" numpy packaging setuptools &&
    "${made[@]}" --prerelease allow --index-url "$PATCHGATE_NIGHTLY_INDEX" torch || exit 4 # the machine's trouble: again
  more+=(--python "$RESULTS.nightly/bin/python")
elif [ -n "${TORCH:-}" ]; then
  more+=(--torch "$TORCH")
fi
[ -z "${DEVICE:-}" ] || more+=(--device "$DEVICE")
results=".patchgate/$SESSION"
rm -rf "$results/verdicts.json" # of the run before, which a cache has brought
patchgate "$SESSION" "${more[@]}" -- "${patches[@]}"
code=$?
[ "$SESSION" != gate ] || [ ! -d "$results" ] || cp -r "$results" "$RESULTS"
[ "$SESSION" != sweep ] || [ ! -f "$results/verdicts.json" ] || cp "$results"/{history.sqlite,verdicts.json,report.html} "$RESULTS"
exit "$code"
