#include "checkpoint/save_weights.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <mutex>

#include "sluice/parts/rank_threads.h"
#include "support/temp_directory.h"

namespace sluice::test {
namespace {

// Rank r has "layer<r>.weight", filled with r, and the last one another use of the first.
std::vector<ParameterInfo> parameters_of(int rank, int num_ranks) {
  const auto parameter = [](const std::string& name, double value) {
    ParameterInfo info;
    info.name = name;
    info.global_shape = {2, 3};
    info.tensor = at::full({2, 3}, value);
    return info;
  };
  std::vector<ParameterInfo> parameters = {
      parameter("layer" + std::to_string(rank) + ".weight", rank)};
  if (rank == num_ranks - 1) {
    parameters.push_back(parameter("head.weight", 0));
    parameters.back().tied_to = "layer0.weight";
  }
  return parameters;
}

std::vector<std::string> save_on(int num_ranks, const std::string& folder, std::int64_t step) {
  const auto transports = make_local_transports(num_ranks);
  std::vector<std::string> paths(static_cast<std::size_t>(num_ranks));
  run_ranks(transports, 1, nullptr, [&](Transport& transport) {
    paths[transport.rank()] = save_weights(folder, step, parameters_of(transport.rank(), num_ranks),
                                           R"({"model_type": "llama"})", "", transport.world());
  });
  return paths;
}

TEST(SaveWeightsTest, EveryTensorIsInOnePublishedDirectoryWhateverTheNumberOfRanks) {
  for (int num_ranks : {1, 3}) {
    const TempDirectory folder;
    for (const std::string& path : save_on(num_ranks, folder.str(), 12)) {
      EXPECT_EQ(path, folder / "step-00000012");
    }
    EXPECT_EQ(list_directory(folder.str()), std::set<std::string>{"step-00000012"});
    const HfDirectory saved(folder / "step-00000012");
    EXPECT_EQ(saved.names().size(), static_cast<std::size_t>(num_ranks));  // tied: once
    for (int rank = 0; rank < num_ranks; ++rank) {
      const TensorSource source = saved.locate("layer" + std::to_string(rank) + ".weight");
      EXPECT_TRUE(at::equal(source.file->read(source.entry->name), at::full({2, 3}, double(rank))));
    }
  }
}

TEST(SaveWeightsTest, ARankThatCannotWriteTellsAllAndNothingIsLeft) {
  const TempDirectory folder;
  const auto transports = make_local_transports(3);
  std::vector<std::string> errors(3);
  run_ranks(transports, 1, nullptr, [&](Transport& transport) {
    std::vector<ParameterInfo> parameters = parameters_of(transport.rank(), 3);
    if (transport.rank() == 1) parameters.front().tensor = at::ones({2}, at::kComplexDouble);
    try {
      save_weights(folder.str(), 1, parameters, R"({"model_type": "llama"})", "",
                   transport.world());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
      errors[transport.rank()] = error.what();
    }
  });
  EXPECT_NE(errors[1].find("'layer1.weight'"), std::string::npos) << errors[1];
  EXPECT_EQ(errors, std::vector<std::string>(3, errors[1]));
  EXPECT_TRUE(list_directory(folder.str()).empty());
}

TEST(SaveWeightsTest, AFolderThatCannotBeMadeIsACheckpointErrorOnAllRanks) {
  const TempDirectory folder;
  write_file(folder / "file", "x");
  try {
    save_on(2, folder / "file/checkpoint", 1);
    FAIL() << "saved";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
  }
  EXPECT_EQ(list_directory(folder.str()), std::set<std::string>{"file"});
}

}  // namespace
}  // namespace sluice::test
