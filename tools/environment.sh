# Sourced by the tools: make_environment NAME EXTRAS makes .venv-NAME with streamlearn installed.
# run_long SCRIPT ARGUMENTS runs one in .venv-long, in the folder where it was called.
# Needs Python 3.11 or newer with its headers, and gcc; says so when they are missing.

find_python() {
    for candidate in "${PYTHON:-}" python3.11 python3.12 python3.13 python3.14 python3; do
        [ -n "$candidate" ] || continue
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return 0
        fi
    done
    echo "needs Python 3.11 or newer (Debian: apt-get install python3 python3-venv python3-dev)" >&2
    return 1
}

make_environment() {
    python=$(find_python) || exit 69
    command -v gcc >/dev/null 2>&1 || { echo "needs gcc (Debian: apt-get install gcc)" >&2; exit 69; }
    environment=".venv-$1"
    if [ ! -x "$environment/bin/pip" ]; then
        rm -rf "$environment"
        "$python" -m venv "$environment" || {
            echo "needs Python's venv module (Debian: apt-get install python3-venv)" >&2
            exit 69
        }
    fi
    echo "installing streamlearn into $environment ..." >&2
    # From a copy, so that a build leaves nothing in the source tree and takes nothing stale from it.
    copy=$(mktemp -d)
    cp -R setup.py pyproject.toml README.md LICENSE streamlearn "$copy"
    find "$copy" -name '*.so' -delete
    if ! "$environment/bin/pip" install --quiet --disable-pip-version-check "$copy$2" \
        >"$environment/install.log" 2>&1; then
        cat "$environment/install.log" >&2
        rm -rf "$copy"
        echo "the installation failed; its log is $environment/install.log" >&2
        exit 70
    fi
    rm -rf "$copy"
}

# An environment of its own, so that a long run and the tests do not change each other's.
run_long() {
    script=$1
    shift
    make_environment long "" || exit
    root=$PWD
    cd "$called_from"
    exec "$root/.venv-long/bin/python" "$root/$script" "$@"
}
