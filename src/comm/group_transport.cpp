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
#include "comm/gloo_link.h"
#include "comm/process_ranks.h"
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
  ProcessRanksOptions process;
  process.num_ranks = process.num_processes = size;
  process.process = rank;
  if (!options.devices.empty()) process.devices = {options.devices[static_cast<std::size_t>(rank)]};
  process.deadline = [deadline = options.deadline] { return deadline; };
  auto shared = std::make_shared<ProcessRanks>(std::move(process));
  if (size > 1) {
    const c10::intrusive_ptr<c10d::Store> store = group.getStore();
    if (!store) {
      throw Error(ErrorKind::kUsage,
                  {.what = "the process group has no store to connect its ranks",
                   .where = kWhere,
                   .remedy = "make it with c10d::ProcessGroup(store, rank, size)"});
    }
    GlooLinkOptions link;
    link.num_ranks = link.num_processes = size;
    link.process = rank;
    link.deadline = std::max(options.deadline, kConnect);
    link.transfer_deadline = [deadline = options.deadline] { return deadline; };
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
    shared->connect(make_gloo_link(store, std::move(link)));
  }
  return std::move(make_endpoints(std::move(shared)).front());
}

}  // namespace sluice
