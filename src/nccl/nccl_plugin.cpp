// Fills the table with NCCL's functions (nccl_table.h). Loaded after LibTorch's CUDA library, which
// brings libnccl. No other source includes nccl.h.
#include <nccl.h>

#include <cstring>
#include <type_traits>

#include "nccl/nccl_table.h"

namespace {

using sluice::nccl::Comm;
using sluice::nccl::Result;
using sluice::nccl::Stream;
using sluice::nccl::Table;
using sluice::nccl::UniqueId;

static_assert(static_cast<int>(ncclSuccess) == sluice::nccl::kSuccess);
static_assert(static_cast<int>(ncclUnhandledCudaError) == sluice::nccl::kUnhandledCudaError);
static_assert(static_cast<int>(ncclSystemError) == sluice::nccl::kSystemError);
static_assert(static_cast<int>(ncclInternalError) == sluice::nccl::kInternalError);
static_assert(static_cast<int>(ncclInvalidArgument) == sluice::nccl::kInvalidArgument);
static_assert(static_cast<int>(ncclInvalidUsage) == sluice::nccl::kInvalidUsage);
static_assert(static_cast<int>(ncclRemoteError) == sluice::nccl::kRemoteError);
static_assert(static_cast<int>(ncclInProgress) == sluice::nccl::kInProgress);
static_assert(sizeof(ncclUniqueId) == sizeof(UniqueId) && NCCL_UNIQUE_ID_BYTES == sizeof(UniqueId));
static_assert(std::is_pointer_v<ncclComm_t> && std::is_pointer_v<cudaStream_t>);
static_assert(sizeof(ncclComm_t) == sizeof(Comm) && sizeof(cudaStream_t) == sizeof(Stream));
// Older NCCL versions lack parts of the configuration of non-blocking communicators.
static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 0), "NCCL 2.18 or newer is needed");

Result result_of(ncclResult_t result) { return static_cast<Result>(result); }
ncclComm_t comm_of(Comm comm) { return static_cast<ncclComm_t>(comm); }
cudaStream_t stream_of(Stream stream) { return static_cast<cudaStream_t>(stream); }

ncclUniqueId id_of(const UniqueId& id) {
  ncclUniqueId theirs;
  std::memcpy(&theirs, &id, sizeof theirs);
  return theirs;
}

constexpr Table kTable = {
    .compiled_version = NCCL_VERSION_CODE,
    .get_version = [](int* version) { return result_of(ncclGetVersion(version)); },
    .get_unique_id =
        [](UniqueId* id) {
          ncclUniqueId theirs;
          const ncclResult_t result = ncclGetUniqueId(&theirs);
          std::memcpy(id, &theirs, sizeof theirs);
          return result_of(result);
        },
    .comm_init_rank =
        [](Comm* comm, int num_ranks, const UniqueId& id, int rank) {
          ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
          config.blocking = 0;
          return result_of(ncclCommInitRankConfig(reinterpret_cast<ncclComm_t*>(comm), num_ranks,
                                                  id_of(id), rank, &config));
        },
    .comm_finalize = [](Comm comm) { return result_of(ncclCommFinalize(comm_of(comm))); },
    .comm_destroy = [](Comm comm) { return result_of(ncclCommDestroy(comm_of(comm))); },
    .comm_abort = [](Comm comm) { return result_of(ncclCommAbort(comm_of(comm))); },
    .get_async_error =
        [](Comm comm, Result* error) {
          ncclResult_t theirs = ncclSuccess;
          const ncclResult_t result = ncclCommGetAsyncError(comm_of(comm), &theirs);
          *error = result_of(theirs);
          return result_of(result);
        },
    .group_start = [] { return result_of(ncclGroupStart()); },
    .group_end = [] { return result_of(ncclGroupEnd()); },
    .send =
        [](const void* bytes, std::size_t num_bytes, int peer, Comm comm, Stream stream) {
          return result_of(
              ncclSend(bytes, num_bytes, ncclUint8, peer, comm_of(comm), stream_of(stream)));
        },
    .receive =
        [](void* bytes, std::size_t num_bytes, int peer, Comm comm, Stream stream) {
          return result_of(
              ncclRecv(bytes, num_bytes, ncclUint8, peer, comm_of(comm), stream_of(stream)));
        },
    .error_text =
        [](Result result) { return ncclGetErrorString(static_cast<ncclResult_t>(result)); },
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const Table* sluice_nccl_table_1() {
  return &kTable;
}
static_assert(std::is_same_v<decltype(&sluice_nccl_table_1), sluice::nccl::GetTable>);
