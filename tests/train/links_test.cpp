// Compares any distribution of ranks to processes with one process.
#include <gtest/gtest.h>

#include "support/gloo_processes.h"
#include "train/trainer_support.h"

namespace sluice::test::links_test {
namespace {

struct Layout {
  std::string schedule;
  int ranks;
  DataParallel data_parallel;
};
std::ostream& operator<<(std::ostream& out, const Layout& layout) {
  const DataParallel& how = layout.data_parallel;
  return out << layout.schedule << ", " << layout.ranks << " x " << how.degree
             << (how.zero1 ? ", zero1" : "") << (how.zero3 ? ", zero3" : "");
}

DataParallel two_replicas() {
  DataParallel how;
  how.degree = how.shards = 2;
  return how;
}
DataParallel with_zero1() {
  DataParallel how = two_replicas();
  how.zero1 = true;
  return how;
}
DataParallel with_zero3() {
  DataParallel how = two_replicas();
  how.zero3 = true;
  return how;
}

// The first and last layers share a weight.
TrainingRun run_of(const Layout& layout) {
  constexpr int kOfAll = 8;
  TrainingRun run;
  run.model = [] { return mlp(/*tied=*/true); };
  const auto program = [&](std::vector<TieGroup> ties) {
    return replicated_program(layout.schedule, layout.ranks, kOfAll / layout.data_parallel.degree,
                              layout.data_parallel, std::move(ties));
  };
  run.program = program({});
  run.program = program({{"first.weight", {0, run.program.num_stages() - 1}}});
  run.partition = even_partition(run.model(), run.program.stage_map);
  run.steps = random_steps(3, kOfAll);
  run.options.seed = 3;
  run.options.optimizer.max_norm = 0.5;
  run.options.data_parallel = layout.data_parallel;
  return run;
}

class LinksTest : public ::testing::TestWithParam<Layout> {};

TEST_P(LinksTest, LossesNormsAndWeightsAreTheBitsOfThreads) {
  TrainingRun run = run_of(GetParam());
  const TrainingResult threads = run_training(run);
  EXPECT_NE(threads.reports.back().loss, threads.reports.front().loss);
  ASSERT_FALSE(threads.weights.empty());
  for (const auto& [processes, make] :
       {std::pair("a process for each rank", &single_gloo_processes),
        std::pair("two processes with half of the ranks each", &mixed_gloo_processes)}) {
    run.make_endpoints = make;
    const TrainingResult result = run_training(run);
    EXPECT_TRUE(same_bits(threads, result)) << processes;
    for (std::size_t rank = 0; rank < result.of_rank.size(); ++rank) {
      for (std::size_t step = 0; step < run.steps.size(); ++step) {
        EXPECT_EQ(result.of_rank[rank].at(step).loss, threads.of_rank[rank].at(step).loss)
            << processes;
        EXPECT_EQ(result.of_rank[rank].at(step).grad_norm, threads.of_rank[rank].at(step).grad_norm)
            << processes;
      }
    }
  }
}

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (const char* schedule : {"GPipe", "1F1B", "Interleaved1F1B", "ZBVZeroBubble"}) {
    for (const DataParallel& how : {two_replicas(), with_zero1()})
      all.push_back({schedule, 2, how});
    all.push_back({schedule, 4, {}});
  }
  all.push_back({"1F1B", 2, with_zero3()});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Layouts, LinksTest, ::testing::ValuesIn(layouts()));

}  // namespace
}  // namespace sluice::test::links_test
