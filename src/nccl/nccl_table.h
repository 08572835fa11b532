// A table of the NCCL functions that sluice calls, with our own declarations, so that code compiles
// and is tested without NCCL. nccl_plugin.cpp asserts that they match nccl.h.
//
// Every communicator is non-blocking: a function may return kInProgress, and get_async_error() then
// returns its outcome. Calls for one communicator must not overlap.
#pragma once

#include <array>
#include <cstddef>

namespace sluice::nccl {

enum Result : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

using Comm = void*;    // ncclComm_t
using Stream = void*;  // cudaStream_t
struct UniqueId {
  std::array<char, 128> bytes;
};

struct Table {
  int compiled_version = 0;                       // version of nccl.h: 22907 is 2.29.7
  Result (*get_version)(int* version) = nullptr;  // version of libnccl
  Result (*get_unique_id)(UniqueId* id) = nullptr;
  // *comm must not move until this completes, because NCCL's thread may write to it.
  Result (*comm_init_rank)(Comm* comm, int num_ranks, const UniqueId& id, int rank) = nullptr;
  Result (*comm_finalize)(Comm comm) = nullptr;
  Result (*comm_destroy)(Comm comm) = nullptr;
  Result (*comm_abort)(Comm comm) = nullptr;
  Result (*get_async_error)(Comm comm, Result* error) = nullptr;
  Result (*group_start)() = nullptr;
  Result (*group_end)() = nullptr;
  Result (*send)(const void* bytes, std::size_t num_bytes, int peer, Comm comm,
                 Stream stream) = nullptr;
  Result (*receive)(void* bytes, std::size_t num_bytes, int peer, Comm comm,
                    Stream stream) = nullptr;
  const char* (*error_text)(Result result) = nullptr;
};

// The only symbol that the plug-in exports. Its number changes when Table changes.
inline constexpr const char* kTableSymbol = "sluice_nccl_table_1";
using GetTable = const Table* (*)();

}  // namespace sluice::nccl
