// A pipeline whose ranks are threads of this process.
#include "sluice/error.h"
#include "sluice/parts/describe.h"
#include "sluice/parts/rank_threads.h"
#include "sluice/parts/transport.h"
#include "sluice/pipeline.h"

namespace sluice {

void run(const Model& model, const PipelineOptions& options,
         const std::function<void(Pipeline&)>& body, const RunOptions& run_options) {
  require_single_process();
  const Plan plan = plan_pipeline(describe(model.layers), options);
  const int num_ranks = plan.program.num_ranks();
  run_ranks(make_local_transports(num_ranks, {run_options.deadline}),
            resolve_threads_per_rank(run_options.threads_per_rank, num_ranks), /*ledger=*/nullptr,
            [&](Transport& transport) {
              Pipeline pipeline(model, plan, transport, run_options);
              body(pipeline);
            });
}

}  // namespace sluice
