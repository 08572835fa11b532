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
  static std::unique_ptr<Impl> drafted(const Model& model, Plan draft, Transport& transport,
                                       const RunOptions& options);

  const std::thread::id thread = std::this_thread::get_id();
  const Model& model;
  Transport& transport;
  const Group world;
  PipelineRank rank;
  RankModel& share;
  CallersParameters callers;
  Grads grads;
  std::int64_t step = 0;
  bool gave_parameters = false;
  std::set<std::string> compared_calls;
  bool warned_of_loss = false;

  Impl(const Model& the_model, const Plan* plan, std::optional<Plan> draft,
       Transport& the_transport, RunOptions options)
      : model(the_model),
        transport(the_transport),
        world(the_transport.world()),
        rank(model, plan, std::move(draft), transport, std::move(options)),
        share(rank.share()),
        callers(share, rank.plan().options.step_end == StepEnd::kGradients),
        grads(callers, transport.size() > 1) {}

  // said: describes the call, and must be equal on all ranks.
  StepBatch training_batch(const Inputs& inputs, const StepOptions& options, const char* call,
                           const std::string& said = "train_step");
  void agree_on(StepBatch& batch, const StepOptions& options, const char* call,
                const std::string& said);
  void require_own(const torch::optim::Optimizer& optimizer);
  // Rejects a parameter that is in two optimizers. call: name for the error message.
  void require_own(const char* call, const std::vector<const torch::optim::Optimizer*>& optimizers);
  // Throws if zero3 shards parameters, because they have no memory between steps.
  void require_whole(const char* call) const;
  // Call this when the user requests whole parameters, which an optimizer may then hold. Does
  // nothing for blocks.
  void hand_out_whole_parameters();
  Work<GradientNorms> post_norms();
  void warn_of_loss(double loss);
  PipelineState state();
  bool has_stage(int stage) const {
    return rank.plan().program.stage_map.rank_of(stage) == share.groups.place();
  }

  // Runs `body` and aborts the transport on an error, because other ranks would wait for this rank.
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
