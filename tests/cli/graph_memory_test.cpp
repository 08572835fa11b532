// Larger models are in tests/oracle/check_graph_memory.py.
#include "graph_fixture.h"

namespace sluice::testing {
namespace {

using nlohmann::json;

struct GraphMemoryCase {
  std::string name;
  std::vector<std::string> options;
};

// Microbatches are large compared with the constant memory of a run.
class GraphMemoryTest : public GraphFixture, public ::testing::WithParamInterface<GraphMemoryCase> {
 protected:
  GraphMemoryTest() {
    std::string rows;
    for (int row = 0; row < 256; ++row) {
      json ids = json::array();
      for (int i = 0; i < 16; ++i) ids.push_back((7 * i + 5 * row) % 256);
      rows += json({{"input_ids", ids}}).dump() + "\n";
    }
    test::write_file(rows_of("decoder"), rows);
  }
};

TEST_P(GraphMemoryTest, PredictsThePeakOfEveryRank) {
  std::vector<std::string> options = {"--training.microbatch_size=64",
                                      "--training.local_batch_size=256", "--training.steps=2"};
  options.insert(options.end(), GetParam().options.begin(), GetParam().options.end());
  const ProgramResult result = train(options);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  options.insert(options.begin(), {"plan", config(), "--json"});
  const json memory = json::parse(run_sluice(options).out).at("memory");
  for (std::size_t rank = 0; rank < memory.size(); ++rank) {
    double measured = 0;
    for (const json& line : metrics())
      measured = std::max(measured, line.at("memory_bytes").at(rank).get<double>());
    EXPECT_NEAR(measured / memory[rank].at("total_bytes").get<double>(), 1, 0.05)
        << "rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Every, GraphMemoryTest,
    ::testing::Values(GraphMemoryCase{"Whole", {"--parallelism.pipeline_parallel_degree=1"}},
                      GraphMemoryCase{"OnTwoRanks", {}},
                      GraphMemoryCase{"LayersThatRunTwice",
                                      {"--training.activation_checkpoint=full"}}),
    [](const ::testing::TestParamInfo<GraphMemoryCase>& each) { return each.param.name; });

}  // namespace
}  // namespace sluice::testing
