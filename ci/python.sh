#!/usr/bin/env bash
# The Python package: builds the wheel, installs it in a new virtual environment, checks types there, runs the tests and
# executes the notebooks. ci/python.sh release does so with the wheel for users. 5 minutes, 10 for the release.
#
# By default, the program in the wheel has the profile `gate`, with which the other checks have compiled most of it.
# The wheel and the environment are left in target/python.
set -euo pipefail
cd "$(dirname "$0")/.."

usable() {
    python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}
usable || ci/install.sh python
if ! usable; then
    echo "python: no Python 3.11 or later with venv (ci/install.sh python installs it): skipped"
    exit 77
fi
profile=${1:-gate}
mkdir -p "${CARGO_TARGET_DIR:=target}/python"
export CARGO_TARGET_DIR
CARGO_TARGET_DIR=$(cd "$CARGO_TARGET_DIR" && pwd)
folder=$CARGO_TARGET_DIR/python/$profile
python3 -m venv --clear "$folder/venv"
export PATH="$folder/venv/bin:$PATH"
pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'

cd python
pip install --quiet --group check
rm -f "$folder"/*.whl
maturin build --quiet --locked --profile "$profile" --out "$folder"
pip install --quiet "$(ls "$folder"/*.whl)[notebooks]"

mypy --cache-dir "$folder/mypy" src tests
# The checkout must not be what is tested: the folder of the tests has no module `everybuddy`.
pytest --quiet -p no:cacheprovider tests
