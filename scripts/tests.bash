# Sourced by the scripts that run tests.
# shellcheck shell=bash

# system_tests FILTER...: the tests of the whole product whose names have one of these texts, by the arguments of libtest
system_tests() { cargo test --quiet --package weft-system-tests --test system -- "$@"; }

# development_programs: builds all programs with the features that the tests have, which are those of all packages. One package alone would build its
# dependencies with other features.
development_programs() { cargo build --quiet --workspace --bins; }

# use_development_programs FOLDER: the tests take the programs in this folder, and build none
use_development_programs() {
    local program variable
    for program in weft weft-agent weft-e2e weft-images weft-packages weft-testenv; do
        variable=${program^^}_BIN
        export "${variable//-/_}=$1/$program"
    done
}

# release_programs: builds the programs that users get, unless the environment names others
release_programs() {
    local program variable missing=()
    for program in weft weft-agent; do
        variable=${program^^}_BIN variable=${variable//-/_}
        [[ -z ${!variable:-} ]] || continue
        missing+=("$program")
        export "$variable=$PWD/target/release/$program"
    done
    ((${#missing[@]} == 0)) || scripts/build "${missing[@]}"
}
