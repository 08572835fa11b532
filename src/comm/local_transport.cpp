#include "comm/process_ranks.h"
#include "sluice/parts/transport.h"

namespace sluice {

std::vector<std::unique_ptr<Transport>> make_local_transports(int size,
                                                              const TransportOptions& options) {
  if (size < 1) throw Error(ErrorKind::kInternal, {.what = "a transport needs at least one rank"});
  ProcessRanksOptions process;
  process.num_ranks = size;
  process.devices = options.devices;
  process.deadline = [deadline = options.deadline] { return deadline; };
  return make_endpoints(std::make_shared<ProcessRanks>(std::move(process)));
}

}  // namespace sluice
