#!/usr/bin/env bash
# Runs one command of patchgate in a repository, and leaves the results in $RESULTS. All it is told comes in the
# environment and stays quoted: a patch's path is whatever its author called it. Without PATCHES the table's are judged.
#   WORKSPACE with the repository; RESULTS, which is replaced: what is there afterwards this run has written;
#   SESSION (gate, sweep or bisect), TORCH, DEVICE; PATCHES and ARGUMENTS, one a line
set -uo pipefail
cd "$WORKSPACE" || exit 2
mapfile -t patches < <(printf '%s' "${PATCHES:-}")
mapfile -t more < <(printf '%s' "${ARGUMENTS:-}")
# A repository may bring results along, or a link in their place: this run's go to a folder that nobody knows before.
rm -rf -- "$RESULTS" && mkdir -p -- "$RESULTS" && own=$(mktemp -d -- "$RESULTS.XXXXXXXX") || exit 4
if [ "${TORCH:-}" = nightly ]; then
  # uv obeys the settings of the folder that it stands in: a stranger's could name another index.
  made=(uv pip install --quiet --python "$own/nightly/bin/python")
  (cd / && uv venv --quiet "$own/nightly" && "${made[@]}" numpy packaging setuptools &&
    "${made[@]}" --prerelease allow --index-url "$PATCHGATE_NIGHTLY_INDEX" torch) || exit 4 # the machine's trouble: again
  more+=(--python "$own/nightly/bin/python")
elif [ -n "${TORCH:-}" ]; then
  more+=(--torch "$TORCH")
fi
[ -z "${DEVICE:-}" ] || more+=(--device "$DEVICE")
# Of two folders the last counts, so that no argument leads elsewhere.
[ "$SESSION" = bisect ] || more+=(--folder "$own/$SESSION")
patchgate "$SESSION" "${more[@]}" -- "${patches[@]}"
code=$?
[ ! -d "$own/gate" ] || cp -rP "$own/gate" "$RESULTS"
[ ! -f "$own/sweep/verdicts.json" ] || cp -P "$own"/sweep/{history.sqlite,verdicts.json,report.html} "$RESULTS"
find "$RESULTS" ! -type f ! -type d -delete # an upload would follow links
rm -rf -- "$own"
exit "$code"
