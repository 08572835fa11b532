// The functions of NCCL that sluice calls, as a table of pointers with declarations of our own: so
// the link compiles and is tested without NCCL. The plug-in (nccl_plugin.cpp), the one source that
// sees nccl.h, fills the table and asserts that both declarations agree; tests have a table of
// their own, which records (tests/device/recording_nccl.h).
//
// Owns: nothing. Does not own: when a function is called (comm/nccl_link.h).
//
// Invariant: every communicator is non-blocking: a function that begins something may return
// kInProgress, and get_async_error() says when that is over.
// Thread-safety: as NCCL: calls for one communicator are one at a time.
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
  int compiled_version = 0;                       // NCCL's number of the headers: 22907 is 2.29.7
  Result (*get_version)(int* version) = nullptr;  // of the library
  Result (*get_unique_id)(UniqueId* id) = nullptr;
  // *comm stays where it is until this is over: NCCL's thread may write to it.
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

// The plug-in's only symbol, and its type. The number changes with the table.
inline constexpr const char* kTableSymbol = "sluice_nccl_table_1";
using GetTable = const Table* (*)();

}  // namespace sluice::nccl
