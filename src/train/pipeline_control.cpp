#include "train/pipeline_control.h"

#include <set>
#include <utility>

#include "comm/gather_messages.h"
#include "sluice/parts/stage.h"
#include "train/pipeline_impl.h"

namespace sluice {

std::vector<MicrobatchLoss> PipelineControl::evaluate(const StepBatch& batch) {
  impl_.callers.require_settled("Pipeline::evaluate");
  impl_.rank.evaluate(batch, {});
  return impl_.rank.evaluated_losses();
}

RankState PipelineControl::state() const { return impl_.rank.state(impl_.share.groups); }
RankState PipelineControl::state(const Group& world) const {
  const RankModel& share = impl_.share;
  return impl_.rank.state(share.shards_state || share.groups.num_shares > 1
                              ? make_run_groups(world, share.mesh)
                              : share.groups);
}

std::vector<std::string> PipelineControl::load_state(const Checkpoint& checkpoint,
                                                     const FillStage& rest) {
  std::vector<std::string> without_state = impl_.rank.load(checkpoint, rest);
  impl_.callers.settle();
  return without_state;
}

std::vector<RankStats> PipelineControl::gather_stats(const StepTimes& times) const {
  const MemoryLedger* ledger = impl_.rank.options().ledger;
  Packer own;
  own.add(std::vector<double>{times.total, times.compute, times.wait_receive, times.wait_send,
                              times.reduction, times.optimizer, times.compute_cpu});
  own.add(ledger ? ledger->peak_bytes(impl_.world.rank()) : 0);
  std::vector<RankStats> stats;
  for (Unpacker& message : gather_messages(impl_.world, own, "what the step cost")) {
    RankStats& of_rank = stats.emplace_back();
    const auto seconds = message.take<std::vector<double>>();
    of_rank.times = {seconds.at(0), seconds.at(1), seconds.at(2), seconds.at(3),
                     seconds.at(4), seconds.at(5), seconds.at(6)};
    of_rank.peak_bytes = message.take<std::int64_t>();
    message.finish();
  }
  return stats;
}

std::vector<int> PipelineControl::gather_unsplit_stages() const {
  std::vector<int> own;
  for (const auto& stage : impl_.share.stages.stages()) {
    if (!stage->splits_backward()) own.push_back(stage->index());
  }
  std::set<int> unsplit;
  for (Unpacker& message : gather_messages(impl_.world, Packer().add(own), "unsplit stages")) {
    for (const int stage : message.take<std::vector<int>>()) unsplit.insert(stage);
    message.finish();
  }
  return {unsplit.begin(), unsplit.end()};
}

std::string PipelineControl::flight_record() const { return impl_.rank.flight_record(); }
int PipelineControl::current_instruction() const { return impl_.rank.current_instruction(); }

}  // namespace sluice
