// Checks that reject a step of a pipeline before it starts. They throw Error(kUsage), except
// require_counted(), which throws Error(kInput).
#pragma once

#include <optional>
#include <string>

#include "sluice/options.h"
#include "sluice/parts/run_options.h"
#include "sluice/parts/stage.h"
#include "sluice/parts/values.h"
#include "sluice/plan.h"
#include "train/rank_model.h"

namespace sluice {

class Transport;

// Checks that the plan has the replicas of the mesh. where: for the message.
void require_planned_replicas(const Mesh& mesh, const DataParallel& data_parallel,
                              const char* where);
// Returns when the hook reduces gradients, in the plan's terms.
HookedReduction hooked_reduction(const GradientReduction& reduction);
// Checks that the options of a run fit its plan and its model.
void require_runnable(const Plan& plan, const Model& model, const RunOptions& options);
// Returns the transport if it has as many ranks as the plan.
Transport& require_fits(const Plan& plan, Transport& transport);
// Checks that some microbatch counts something, in any replica if the total count is known. what,
// remedy: for the message.
void require_counted(const StepBatch& batch, const std::string& what, const std::string& remedy);
// Checks that the modules' parameters are still the tensors from which the stages were made.
void require_same_parameters(const RankStages& stages);
// Checks that a divisor is in the allowed range, which is above 0. call: for the message.
void require_divisor(const char* call, const std::optional<GradientScale>& scale);
void require_no_scale(const char* call, const std::optional<GradientScale>& scale);
// Wraps the loss. While graphs are recorded, it throws Error(kUsage) if the loss counts something
// but depends on no trained parameter.
LossFunction with_graph(LossFunction loss);
// Checks that the plan leaves the update to the caller. call: for the message.
void require_callers_update(const Plan& plan, const char* call);
void require_something_trains(const RankModel& rank);
// Checks that this thread records graphs.
void require_gradients(const char* call);
// Checks that the hook matches the plan and its schedule's REDUCE_GRAD.
void require_reduction(const GradientReduction& reduction, const Plan& plan);
// Checks that the modules train the parameters that the plan trains, as far as it lists them.
void require_planned_training(const Plan& plan, const RankStages& stages);

}  // namespace sluice
