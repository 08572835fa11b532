// Checks that refuse a step of a pipeline before it starts.
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

// All throw Error(kUsage), but for require_counted: Error(kInput).
// The replicas are those of the mesh. where: for the message.
void require_planned_replicas(const Mesh& mesh, const DataParallel& data_parallel,
                              const char* where);
// The plan's view of a hook.
HookedReduction hooked_reduction(const GradientReduction& reduction);
// Checks that the options of a run fit its plan and its model.
void require_runnable(const Plan& plan, const Model& model, const RunOptions& options);
// The transport, if it has as many ranks as the plan.
Transport& require_fits(const Plan& plan, Transport& transport);
// Some microbatch counts something, of whichever replica where that is known. what, remedy: for the
// message.
void require_counted(const StepBatch& batch, const std::string& what, const std::string& remedy);
// The modules' parameters are still those that the stages were made of.
void require_same_parameters(const RankStages& stages);
// A divisor is above 0. call: for the message.
void require_divisor(const char* call, const std::optional<GradientScale>& scale);
void require_no_scale(const char* call, const std::optional<GradientScale>& scale);
// The loss; where graphs are recorded it throws Error(kUsage) when it counts something and depends
// on nothing that is trained.
LossFunction with_graph(LossFunction loss);
// The plan leaves the update to the caller. call: for the message.
void require_callers_update(const Plan& plan, const char* call);
void require_something_trains(const RankModel& rank);
// This thread records graphs.
void require_gradients(const char* call);
// A hook for what is said of it, at the times that plan and schedule say.
void require_reduction(const GradientReduction& reduction, const Plan& plan);
// Checks that the parameters that train are those of the plan, as far as it knows them.
void require_planned_training(const Plan& plan, const RankStages& stages);

}  // namespace sluice
