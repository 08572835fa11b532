#pragma once

#include "train_fixture.h"

namespace sluice::testing {

inline const std::string kGraphs = SLUICE_TEST_DATA "/command/data/";
inline const std::string kDecoder = kGraphs + "decoder.pt2";

class GraphFixture : public TrainCommandTest {
 protected:
  GraphFixture() {
    nlohmann::json row;
    std::string rows;
    for (int r = 0; r < 8; ++r) {
      row["input_ids"] = nlohmann::json::array();
      for (int i = 0; i < 16; ++i) row["input_ids"].push_back((7 * i + 13 * r) % 256);
      rows += row.dump() + "\n";
    }
    test::write_file(rows_of("decoder"), rows);
    write_config("decoder", 16);
  }

  std::string rows_of(const std::string& graph) const { return folder_ / (graph + ".jsonl"); }

  void write_config(const std::string& graph, int length) const {
    test::write_file(
        config(), "[model]\ngraph = \"" + kGraphs + graph + ".pt2\"\n[data]\nfiles = [\"" +
                      rows_of(graph) + "\"]\ntokenizer = \"bytes\"\n" +
                      "[training]\nsteps = 3\nlocal_batch_size = 4\nmicrobatch_size = 2\n" +
                      "seq_len = " + std::to_string(length) +
                      "\n[optimizer]\nlr = 1e-2\n[parallelism]\npipeline_parallel_degree = 2\n" +
                      "[checkpoint]\nfolder = \"out/checkpoint\"\n[metrics]\nfolder = \"out\"\n");
  }

  std::vector<double> numbers(const std::string& key) const {
    std::vector<double> found;
    for (const nlohmann::json& line : metrics()) found.push_back(line.at(key).get<double>());
    return found;
  }

  struct Outcome {
    std::vector<double> losses;
    std::string hashes;
    friend bool operator==(const Outcome&, const Outcome&) = default;
  };
  Outcome outcome_of(const std::vector<std::string>& overrides,
                     const std::string& step = "step-00000003") const {
    const ProgramResult result = train_anew(overrides);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return {numbers("loss"), hashes_of_step(step)};
  }

  nlohmann::json evaluated(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"eval", config(), "--json"});
    const ProgramResult result = run_sluice(more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out, nullptr, false);
  }
};

}  // namespace sluice::testing
