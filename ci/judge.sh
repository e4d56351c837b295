#!/usr/bin/env bash
# Runs one session of nox on each patch, and leaves the results below $RESULTS. All it is told comes in the
# environment and stays quoted: a patch's path is whatever its author called it.
#   CHECKOUT of patchgate, WORKSPACE that the PATCHES are in, RESULTS, SESSION, PATCHES, TORCH, DEVICE, ARGUMENTS
set -uo pipefail
read -ra patches <<<"${PATCHES:-}"
mapfile -t more < <(printf '%s' "${ARGUMENTS:-}")
[ -z "${TORCH:-}" ] || more+=(--torch "$TORCH")
[ -z "${DEVICE:-}" ] || more+=(--device "$DEVICE")
mkdir -p "$RESULTS"
worst=0

verdicts="$CHECKOUT/.patchgate/$SESSION/verdicts.json"
judge() { # keeps the worst of what nox ended with: red (1) outweighs trouble with the machine (4)
  rm -f "$verdicts" # of the patch before
  python -m nox --non-interactive -f "$CHECKOUT/noxfile.py" -s "$SESSION" -- "$@"
  local code=$?
  # nox ends with 1 where it cannot even install: without verdicts nothing is red.
  [ "$code" != 1 ] || [ -f "$verdicts" ] || code=4
  [ "$code" = 0 ] || [ "$worst" = 1 ] || worst=$code
}

if [ "$SESSION" = gate ]; then
  for patch in "${patches[@]}"; do
    judge "${more[@]}" "$WORKSPACE/$patch"
    [ ! -f "$verdicts" ] || cp -r "$CHECKOUT/.patchgate/gate" "$RESULTS/$(basename "$patch")"
  done
else
  judge "${more[@]}" "${patches[@]/#/$WORKSPACE/}"
  [ "$SESSION" != sweep ] || [ ! -f "$verdicts" ] || cp "$CHECKOUT"/.patchgate/sweep/{history.sqlite,verdicts.json,report.html} "$RESULTS"
fi
exit "$worst"
