#include "sluice/parts/process_transports.h"

#include <utility>

#include "comm/c10d_store.h"
#include "comm/gloo_wire.h"
#include "comm/node.h"

namespace sluice {

std::vector<std::unique_ptr<Transport>> make_process_transports(
    const std::shared_ptr<StoreClient>& store, const ProcessTransportOptions& options) {
  if (options.num_ranks < 1 || options.num_processes < 1 ||
      options.num_ranks % options.num_processes != 0 || options.process < 0 ||
      options.process >= options.num_processes) {
    throw Error(ErrorKind::kInternal,
                {.what = "process " + std::to_string(options.process) + " of " +
                         std::to_string(options.num_processes) + " with " +
                         std::to_string(options.num_ranks) + " ranks in all",
                 .where = "make_process_transports",
                 .remedy = "give each process as many ranks"});
  }
  NodeOptions node;
  node.num_ranks = options.num_ranks;
  node.num_nodes = options.num_processes;
  node.node = options.process;
  node.deadline = options.deadline;
  node.on_failure = options.on_failure;
  node.cause = options.cause;
  auto shared = std::make_shared<Node>(std::move(node));
  if (options.num_processes > 1) {
    GlooWireOptions wire;
    wire.num_ranks = options.num_ranks;
    wire.num_nodes = options.num_processes;
    wire.node = options.process;
    wire.deadline = options.deadline;
    wire.name = options.name;
    wire.host = options.host;
    wire.secret = store->secret();
    shared->connect(make_gloo_wire(make_job_store(store, options.deadline), std::move(wire)));
  }
  return make_endpoints(std::move(shared));
}

}  // namespace sluice
