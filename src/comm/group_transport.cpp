// Makes transports for the ranks of the caller's process group. sluice connects the processes anew,
// so that its waits never break the group's connections.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/format.h"
#include "comm/single_rank_transport.h"
#include "job/sha256.h"
#include "sluice/error.h"
#include "sluice/parts/transport.h"

namespace sluice {
namespace {

constexpr const char* kWhere = "make_transport";
constexpr std::size_t kSecretBytes = 32;
constexpr std::chrono::milliseconds kConnect{30'000};

std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

// All ranks make transports in the same order, so a rank's call number identifies the call.
std::string name_of_call(c10d::Store& store, int rank) {
  return formatted("sluice/{}", store.add(formatted("sluice/calls/{}", rank), 1));
}

std::string share_secret(c10d::Store& store, const std::string& name, int rank) {
  const std::string key = name + "/secret";
  if (rank == 0) {
    const std::string secret = hex(random_bytes(kSecretBytes));
    store.set(key, std::vector<std::uint8_t>(secret.begin(), secret.end()));
  }
  return text_of(store.get(key));
}

}  // namespace

std::unique_ptr<Transport> make_transport(c10d::ProcessGroup& group,
                                          const TransportOptions& options) {
  const int rank = group.getRank(), size = group.getSize();
  if (!options.devices.empty() && options.devices.size() != static_cast<std::size_t>(size)) {
    throw Error(ErrorKind::kUsage, {.what = formatted("there are {} devices for {} ranks",
                                                      options.devices.size(), size),
                                    .where = kWhere,
                                    .remedy = "give one device per rank, or none for the CPU"});
  }
  const c10::intrusive_ptr<c10d::Store> store = group.getStore();
  GlooLinkOptions link;
  if (size > 1) {
    if (!store) {
      throw Error(ErrorKind::kUsage,
                  {.what = "the process group has no store to connect its ranks",
                   .where = kWhere,
                   .remedy = "make it with c10d::ProcessGroup(store, rank, size)"});
    }
    link.deadline = std::max(options.deadline, kConnect);
    const char* const interface = std::getenv("GLOO_SOCKET_IFNAME");
    if (interface)
      link.host = interface;
    else
      link.listens_as_host = true;
    try {
      link.name = name_of_call(*store, rank);
      link.secret = share_secret(*store, link.name, rank);
    } catch (const std::exception& error) {
      throw Error(ErrorKind::kPeer,
                  {.what = formatted("the store of the process group failed: {}", error.what()),
                   .where = formatted("{}, rank {} of {}", kWhere, rank, size),
                   .remedy = "check that all ranks of the group call make_transport()"});
    }
  }
  return make_single_rank_transport(store, rank, size, options, std::move(link));
}

}  // namespace sluice
