// The parts of Pipeline, for Trainer and run() to build on. Thread-safety: one rank's thread.
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
  const std::thread::id thread = std::this_thread::get_id();  // the rank's
  const Model& model;
  Transport& transport;
  const Group world;
  PipelineRank rank;
  RankModel& share;  // of it
  CallersParameters callers;
  Grads grads;
  std::int64_t step = 0;
  bool gave_parameters = false;  // an optimizer may hold them
  std::set<std::string> compared_calls;
  bool warned_of_loss = false;

  // plan, draft: as of PipelineRank.
  Impl(const Model& the_model, const Plan* plan, std::optional<Plan> draft,
       Transport& the_transport, RunOptions options)
      : model(the_model),
        transport(the_transport),
        world(the_transport.world()),
        rank(model, plan, std::move(draft), transport, std::move(options)),
        share(rank.share()),
        callers(share, rank.plan().step_end == StepEnd::kGradients),
        grads(callers, transport.size() > 1) {}

  // The batch cut into the plan's microbatches, as all ranks pass it.
  // said: what all ranks have to call alike, where it is more than "train_step".
  StepBatch training_batch(const Inputs& inputs, const StepOptions& options, const char* call,
                           const std::string& said = "train_step");
  void agree_on(StepBatch& batch, const StepOptions& options, const char* call,
                const std::string& said);
  void require_own(const torch::optim::Optimizer& optimizer);
  // The same of all, which have no parameter twice. call: for the message.
  void require_own(const char* call, const std::vector<const torch::optim::Optimizer*>& optimizers);
  // Refuses sharded parameters: those of the modules have no memory between steps.
  void require_whole(const char* call) const;
  // Notes a request for whole parameters, which an optimizer holds unless it has blocks.
  void give_out_whole();
  // Norms of all gradients, each counted once.
  Work<GradientNorms> post_norms();
  // One rank for all, and once: what follows a loss that is not finite is none either.
  void warn_of_loss(double loss);
  PipelineState state();
  bool has_stage(int stage) const {
    return rank.plan().program.stage_map.rank_of(stage) == share.groups.place();
  }

  // An error that is thrown before the executor runs would leave the other ranks waiting.
  template <typename Body>
  auto waking_others(const char* call, Body body) {
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
