#include "sluice/parts/transport.h"

#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "comm/c10d_store.h"
#include "comm/gloo_link.h"
#include "comm/process_ranks.h"
#include "comm/process_transports.h"
#include "job/store_client.h"
#include "sluice/error.h"

namespace sluice {
namespace {

// Short, because all processes are present by then, and a job's failure does not end Gloo's waits.
constexpr std::chrono::seconds kConnect{30};

void meet(StoreClient& store, const ProcessTransportOptions& options) {
  const auto key = [&](int process) { return formatted("{}/here/{}", options.name, process); };
  store.set(key(options.process), "");
  std::vector<std::string> all;
  all.reserve(static_cast<std::size_t>(options.num_processes));
  for (int process = 0; process < options.num_processes; ++process) all.push_back(key(process));
  if (store.wait(all, options.meet)) return;
  std::vector<std::string> missing;
  for (int process = 0; process < options.num_processes; ++process) {
    if (!store.has({key(process)})) missing.push_back(std::to_string(process));
  }
  throw Error(ErrorKind::kPeer,
              {.what = formatted("no connection within {} ms: process {} did not connect",
                                 options.meet.count(), join(missing, ", ")),
               .where = formatted("process {}, '{}'", options.process, options.name),
               .remedy = "check what process " + missing.front() + " is doing"});
}

}  // namespace

std::vector<std::unique_ptr<Transport>> make_process_transports(
    const std::shared_ptr<StoreClient>& store, const ProcessTransportOptions& options) {
  if (options.num_ranks < 1 || options.num_processes < 1 ||
      options.num_ranks % options.num_processes != 0 || options.process < 0 ||
      options.process >= options.num_processes) {
    throw Error(ErrorKind::kInternal,
                {.what = formatted("process {} of {} cannot run an equal share of {} ranks",
                                   options.process, options.num_processes, options.num_ranks),
                 .where = "make_process_transports",
                 .remedy = "give each process the same number of ranks"});
  }
  ProcessRanksOptions process;
  process.num_ranks = options.num_ranks;
  process.num_processes = options.num_processes;
  process.process = options.process;
  process.devices = options.devices;
  process.deadline = options.deadline;
  process.on_failure = options.on_failure;
  process.cause = options.cause;
  auto shared = std::make_shared<ProcessRanks>(std::move(process));
  if (options.num_processes > 1) {
    GlooLinkOptions link;
    link.num_ranks = options.num_ranks;
    link.num_processes = options.num_processes;
    link.process = options.process;
    link.deadline = kConnect;
    link.name = options.name;
    link.host = options.host;
    link.secret = store->secret();
    link.nccl = options.nccl;
    if (options.nccl) link.device = options.devices.front();
    link.transfer_deadline = options.deadline;
    meet(*store, options);
    shared->connect(make_gloo_link(make_job_store(store, kConnect), std::move(link)));
  }
  return make_endpoints(std::move(shared));
}

}  // namespace sluice
