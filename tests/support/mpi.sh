# shellcheck shell=bash
# Sourced by tests/e2e/mpi*.sh: mpirun for tests, or a skip. run_ranks N COMMAND... SL_MPIRUN names
# another one than mpirun (a build for MPICH beside one for Open MPI).
mpirun=${SL_MPIRUN:-mpirun}
if ! command -v "$mpirun" >/dev/null 2>&1; then
    echo "skipped: no mpirun here (./dev setup --with-mpi)"
    exit 77
fi
if [ ! -e "$BUILD_DIR/libsluice_mpi.so" ]; then
    echo "skipped: this build has no MPI module (configured before MPI was installed?)"
    exit 77
fi

# Open MPI refuses root and more ranks than cores unless told otherwise; MPICH knows no such option.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_base_warn_component_unused=0
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe

# A hang is a failure: the job is killed after SL_TEST_PATIENCE seconds.
run_ranks() {
    local count=$1
    shift
    timeout "${SL_TEST_PATIENCE:-600}" "$mpirun" -n "$count" "$@"
}
