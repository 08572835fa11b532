#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/executor.h"
#include "layer/initialize_chunks.h"
#include "support/user_batches.h"

namespace sluice::test {

inline Program program_of(const std::string& schedule, int ranks, int microbatches) {
  return lowered(make_schedule(schedule, {ranks, 0, microbatches}));
}

struct OneStage {
  explicit OneStage(Program the_program)
      : program(std::move(the_program)),
        transports(make_local_transports(program.num_ranks())),
        stage(0, Chunk(make_user_layers(UserModel::kMlp, 1, 16, 0), 0, {}, {"prediction"})),
        ops({&stage}, program, transports[0]->world(), 0.1) {
    set_one_thread();
    initialize_parameters(stage.chunk(), 1);
  }
  Executor executor(ExecutorOptions options = {}, LossFunction loss = &squared_error) {
    return {program, 0, {&stage}, *transports[0], ops, std::move(loss), std::move(options)};
  }
  Program program;
  std::vector<std::unique_ptr<Transport>> transports;
  Stage stage;
  PlainSgd ops;
};

}  // namespace sluice::test
