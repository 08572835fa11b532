// Checks of a step's arguments. They throw Error(kUsage), except require_counted(), which throws
// Error(kInput).
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

void require_planned_replicas(const Mesh& mesh, const DataParallel& data_parallel,
                              const char* where);
HookedReduction hooked_reduction(const GradientReduction& reduction);
void require_runnable(const Plan& plan, const Model& model, const RunOptions& options);
Transport& require_fits(const Plan& plan, Transport& transport);
// Requires a microbatch with a count above 0, in any replica if the total is known.
void require_counted(const StepBatch& batch, const std::string& what, const std::string& remedy);
void require_same_parameters(const RankStages& stages);
void require_divisor(const char* call, const std::optional<GradientScale>& scale);
void require_no_scale(const char* call, const std::optional<GradientScale>& scale);
// Wraps a loss function. While graphs are recorded, throws if the loss has a count but depends on
// no trained parameter.
LossFunction with_graph(LossFunction loss);
void require_callers_update(const Plan& plan, const char* call);
void require_something_trains(const RankModel& rank);
void require_gradients(const char* call);
void require_reduction(const GradientReduction& reduction, const Plan& plan);
// If the plan lists trained parameters, requires that exactly these train.
void require_planned_training(const Plan& plan, const RankStages& stages);

}  // namespace sluice
