#!/usr/bin/env bash
# Runs a command and shows its output only if it fails or takes notice of
# something: quiet.sh TITLE COMMAND...
set -u
title=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
start=$SECONDS
if [ -t 2 ]; then
    # A person is watching: the tool's own progress is the best there is.
    printf '%s\n' "$title" >&2
    "$@"
    exit $?
fi
printf '%s ... ' "$title" >&2
if "$@" >"$log" 2>&1; then
    printf 'done (%s s)\n' $((SECONDS - start)) >&2
else
    status=$?
    printf 'failed\n' >&2
    cat "$log" >&2
    exit "$status"
fi
