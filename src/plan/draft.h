// A plan in two halves: what can be said before modules exist, and what depends on what of them
// trains. plan_pipeline() does both at once; a run makes its modules in between.
// Thread-safety: pure functions.
#pragma once

#include "sluice/plan.h"

namespace sluice::detail {

// Placed, cut and scheduled: all but program (of which the mesh is set), proof, simulation and
// prediction. With auto_schedule the whole plan, as the search needs it. Throws as plan_pipeline().
Plan draft_plan(ModelSpec model, const PipelineOptions& options);

// Lowers, proves and predicts, by what the stages of the partition have to compute
// (StageContent::backward). A finished plan may be finished again, when that is otherwise than was
// thought. Throws as plan_pipeline().
Plan finish_plan(Plan plan);

}  // namespace sluice::detail
