// Ranks as threads of one process: a node that has them all, and no wire.
#include "comm/node.h"
#include "sluice/parts/transport.h"

namespace sluice {

std::vector<std::unique_ptr<Transport>> make_local_transports(int size,
                                                              const TransportOptions& options) {
  if (size < 1) throw Error(ErrorKind::kInternal, {.what = "a transport needs at least one rank"});
  NodeOptions node;
  node.num_ranks = size;
  node.deadline = [deadline = options.deadline] { return deadline; };
  return make_endpoints(std::make_shared<Node>(std::move(node)));
}

}  // namespace sluice
