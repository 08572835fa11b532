// From a model to a proven program.
#include <utility>

#include "plan/choose/best.h"
#include "plan/choose/plan_one.h"

namespace sluice {

Plan detail::draft_plan(ModelSpec model, const PipelineOptions& options) {
  if (options.auto_schedule) return best_plan(std::move(model), options);
  Question question(std::move(model), options);
  return draft_one(question, asked_candidate(question));
}

Plan plan_pipeline(ModelSpec model, const PipelineOptions& options) {
  Plan plan = detail::draft_plan(std::move(model), options);
  return options.auto_schedule ? plan : detail::finish_plan(std::move(plan));
}

}  // namespace sluice
