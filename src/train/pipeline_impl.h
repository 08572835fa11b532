#pragma once

#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/rank_errors.h"
#include "sluice/pipeline.h"
#include "train/agreement.h"
#include "train/callers_parameters.h"
#include "train/grads.h"
#include "train/pipeline_checkpoint.h"
#include "train/pipeline_rank.h"
#include "train/running_step.h"
#include "train/step_norm.h"

namespace sluice {

struct Pipeline::Impl {
  const std::thread::id thread = std::this_thread::get_id();
  const Model& model;
  Transport& transport;
  const Group world;
  PipelineRank rank;
  RankModel& share;
  CallersParameters callers;
  Grads grads;
  std::int64_t step = 0;
  bool gave_parameters = false;  // an optimizer may hold the parameters
  std::set<std::string> compared_calls;
  bool warned_of_loss = false;

  Impl(const Model& the_model, const Plan* plan, std::optional<Plan> draft,
       Transport& the_transport, RunOptions options)
      : model(the_model),
        transport(the_transport),
        world(the_transport.world()),
        rank(model, plan, std::move(draft), transport, std::move(options)),
        share(rank.share()),
        callers(share, rank.plan().step_end == StepEnd::kGradients),
        grads(callers, transport.size() > 1) {}

  // said: what must match on all ranks, if more than "train_step".
  StepBatch training_batch(const Inputs& inputs, const StepOptions& options, const char* call,
                           const std::string& said = "train_step");
  void agree_on(StepBatch& batch, const StepOptions& options, const char* call,
                const std::string& said);
  void require_own(const torch::optim::Optimizer& optimizer);
  // No parameter may be in two optimizers. call: for the message.
  void require_own(const char* call, const std::vector<const torch::optim::Optimizer*>& optimizers);
  // Throws if parameters are sharded: between steps they have no memory.
  void require_whole(const char* call) const;
  // Call this when whole parameters are requested: an optimizer may hold them, unless it has
  // blocks.
  void hand_out_whole_parameters();
  Work<GradientNorms> post_norms();
  void warn_of_loss(double loss);
  PipelineState state();
  bool has_stage(int stage) const {
    return rank.plan().program.stage_map.rank_of(stage) == share.groups.place();
  }

  // Without the abort, an error before the executor runs would leave other ranks waiting.
  template <typename Body>
  auto abort_on_error(const char* call, Body body) {
    require_thread(thread, call);
    try {
      const RunningStep running(call);
      return body();
    } catch (...) {
      const Error error = caught_error();
      transport.abort({transport.rank(), error.kind(), error.what()});
      throw;
    }
  }
};

}  // namespace sluice
