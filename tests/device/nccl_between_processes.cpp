// A stand-in for NCCL between processes of this machine whose simulated devices use host memory. It
// sends bytes over sockets. It is built as the plug-in libsluice_nccl.so. It does not check NCCL's
// rules; recording_nccl.cpp does, within one process. SIMULATED_NCCL_VERSION sets the library
// version (default 22907, that of the headers).
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "nccl/nccl_table.h"

namespace {

using namespace sluice::nccl;

struct End {
  int listens = -1;  // the sender's socket until the receiver connects
  int socket = -1;
};

std::mutex mutex;
std::map<std::string, int> listening;

sockaddr_un address_of(const UniqueId& id) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, id.bytes.data(), 64);  // an abstract name
  return address;
}
constexpr socklen_t kAddressBytes = offsetof(sockaddr_un, sun_path) + 1 + 64;

int limited(int socket) {
  const timeval limit{30, 0};
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  return socket;
}

Result make_id(UniqueId* id) {
  static std::atomic<int> number{0};
  std::snprintf(id->bytes.data(), id->bytes.size(), "sluice-nccl-%d-%d", getpid(), number++);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const sockaddr_un address = address_of(*id);
  if (bind(socket, reinterpret_cast<const sockaddr*>(&address), kAddressBytes) != 0 ||
      listen(socket, 1) != 0)
    return kSystemError;
  const std::lock_guard lock(mutex);
  listening[id->bytes.data()] = socket;
  return kSuccess;
}

Result connect_end(Comm* comm, int /*num_ranks*/, const UniqueId& id, int rank) {
  auto* const end = new End;
  *comm = end;
  if (rank == 0) {
    const std::lock_guard lock(mutex);
    end->listens = listening.at(id.bytes.data());
    return kInProgress;
  }
  end->socket = limited(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = address_of(id);
  return connect(end->socket, reinterpret_cast<const sockaddr*>(&address), kAddressBytes) == 0
             ? kSuccess
             : kRemoteError;
}

Result ask(Comm comm, Result* error) {
  End& end = *static_cast<End*>(comm);
  *error = kSuccess;
  if (end.socket >= 0) return kSuccess;
  const int accepted = accept4(end.listens, nullptr, nullptr, SOCK_CLOEXEC);
  if (accepted >= 0)
    end.socket = limited(accepted);
  else
    *error = errno == EAGAIN ? kInProgress : kSystemError;
  return kSuccess;
}

Result close_end(Comm comm) {
  auto* const end = static_cast<End*>(comm);
  if (end->socket >= 0) close(end->socket);
  if (end->listens >= 0) close(end->listens);
  delete end;
  return kSuccess;
}

template <typename Move>
Result all_of(std::size_t num_bytes, Move move) {
  for (std::size_t done = 0; done < num_bytes;) {
    const ssize_t moved = move(done, num_bytes - done);
    if (moved <= 0 && errno != EINTR) return kRemoteError;
    if (moved > 0) done += static_cast<std::size_t>(moved);
  }
  return kSuccess;
}

Result give(const void* bytes, std::size_t num_bytes, int /*peer*/, Comm comm, Stream /*stream*/) {
  return all_of(num_bytes, [&](std::size_t done, std::size_t rest) {
    return send(static_cast<End*>(comm)->socket, static_cast<const char*>(bytes) + done, rest,
                MSG_NOSIGNAL);
  });
}

Result take(void* bytes, std::size_t num_bytes, int /*peer*/, Comm comm, Stream /*stream*/) {
  return all_of(num_bytes, [&](std::size_t done, std::size_t rest) {
    return recv(static_cast<End*>(comm)->socket, static_cast<char*>(bytes) + done, rest, 0);
  });
}

constexpr int kHeaders = 22907;

const Table kTable = {
    .compiled_version = kHeaders,
    .get_version =
        [](int* version) {
          const char* const text = std::getenv("SIMULATED_NCCL_VERSION");
          *version = text ? std::atoi(text) : kHeaders;
          return kSuccess;
        },
    .get_unique_id = make_id,
    .comm_init_rank = connect_end,
    .comm_finalize = [](Comm /*comm*/) { return kSuccess; },
    .comm_destroy = close_end,
    .comm_abort = close_end,
    .get_async_error = ask,
    .group_start = [] { return kSuccess; },
    .group_end = [] { return kSuccess; },
    .send = give,
    .receive = take,
    .error_text =
        [](Result result) {
          return result == kRemoteError ? "remote process exited or there was a network error"
                                        : "unhandled system error";
        },
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const Table* sluice_nccl_table_1() {
  return &kTable;
}
