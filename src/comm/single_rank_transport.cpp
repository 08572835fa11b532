#include "comm/single_rank_transport.h"

#include <utility>

#include "comm/process_ranks.h"

namespace sluice {

std::unique_ptr<Transport> make_single_rank_transport(const c10::intrusive_ptr<c10d::Store>& store,
                                                      int rank, int num_ranks,
                                                      const TransportOptions& options,
                                                      GlooLinkOptions link) {
  ProcessRanksOptions process;
  process.num_ranks = process.num_processes = num_ranks;
  process.process = rank;
  if (!options.devices.empty()) process.devices = {options.devices[static_cast<std::size_t>(rank)]};
  process.deadline = [deadline = options.deadline] { return deadline; };
  link.num_ranks = link.num_processes = num_ranks;
  link.process = rank;
  link.transfer_deadline = process.deadline;
  auto made = std::make_shared<ProcessRanks>(std::move(process));
  if (num_ranks > 1) made->connect(make_gloo_link(store, std::move(link)));
  return std::move(make_endpoints(std::move(made)).front());
}

}  // namespace sluice
