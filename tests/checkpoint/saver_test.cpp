#include "sluice/parts/saver.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <limits>
#include <mutex>
#include <set>

#include "base/log.h"
#include "engine/rank_threads.h"
#include "io/hf_shards.h"
#include "sluice/checkpoint.h"
#include "sluice/parts/transport.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice::test {
namespace {

constexpr const char* kRun = "0123456789abcdef";

// Rank r has "layer<r>.weight" with optimizer state, and a buffer that all ranks have. The last
// rank also has another use of the first parameter.
RankState state_of_rank(int rank, int num_ranks, double add = 0) {
  RankState state;
  const std::string name = "layer" + std::to_string(rank) + ".weight";
  state.parameters = {{name, at::full({2, 3}, rank + add)}};
  state.optimizer = {{"exp_avg/" + name, at::full({2, 3}, 10 + rank + add)}};
  state.buffers = {{"rope.table", at::arange(4)}};
  if (rank == 0) state.extra = {{"mine", at::full({1}, rank)}};
  if (rank == num_ranks - 1 && rank > 0) state.ties = {{"head.weight", "layer0.weight"}};
  return state;
}

SaveTarget target_of(const std::string& folder, std::int64_t step) {
  SaveTarget target;
  target.path = folder + "/ck";
  target.head.run = kRun;
  target.head.step = step;
  target.head.sequence = 8 * step;
  target.head.extra = {{"note", "h\u00e9"}};
  target.config_text = R"({"model_type": "llama"})";
  return target;
}

using Ranks = std::vector<std::unique_ptr<Transport>>;

std::vector<SaveOutcome> save_on(int num_ranks, const SaveTarget& target,
                                 const std::function<void(int, RankState&)>& change = {}) {
  const Ranks transports = make_local_transports(num_ranks);
  std::vector<SaveOutcome> outcomes(static_cast<std::size_t>(num_ranks));
  run_ranks(transports, 1, nullptr, [&](Transport& transport) {
    RankState state = state_of_rank(transport.rank(), num_ranks);
    if (change) change(transport.rank(), state);
    outcomes[transport.rank()] = save_checkpoint(target, state, transport.world());
  });
  return outcomes;
}

std::string failure_of(const std::vector<SaveOutcome>& outcomes) {
  const std::string text = outcomes.front().error ? outcomes.front().error->what() : "";
  for (const SaveOutcome& outcome : outcomes)
    EXPECT_EQ(outcome.error ? outcome.error->what() : "", text);
  return text;
}

TEST(SaverTest, EveryTensorIsInOneCheckpointWhateverTheNumberOfRanks) {
  for (const int num_ranks : {1, 3}) {
    for (const Commit commit : {Commit::kRename, Commit::kMarker}) {
      const TempDirectory folder;
      SaveTarget target = target_of(folder.str(), 12);
      target.commit = commit;
      for (const SaveOutcome& outcome : save_on(num_ranks, target)) {
        ASSERT_FALSE(outcome.error) << outcome.error->what();
        EXPECT_EQ(outcome.path, folder / "ck");
        EXPECT_EQ(outcome.step, 12);
      }
      EXPECT_EQ(list_directory(folder.str()), std::set<std::string>{"ck"});
      const Checkpoint saved(folder / "ck");
      saved.verify();
      const Manifest& manifest = saved.manifest();
      EXPECT_EQ(manifest.step, 12);
      EXPECT_EQ(manifest.sequence, 96);
      EXPECT_EQ(manifest.run, kRun);
      EXPECT_EQ(manifest.extra.at("note"), "h\u00e9");
      EXPECT_EQ(manifest.ties.size(), num_ranks == 1 ? 0u : 1u);
      ASSERT_EQ(manifest.weights.size(), static_cast<std::size_t>(num_ranks) + 1);
      EXPECT_EQ(manifest.extra_tensors.size(), 1u);
      EXPECT_EQ(saved.read(SavedKind::kExtra, "mine").item<double>(), 0);
      for (int rank = 0; rank < num_ranks; ++rank) {
        const std::string name = "layer" + std::to_string(rank) + ".weight";
        EXPECT_TRUE(at::equal(saved.read(SavedKind::kWeights, name), at::full({2, 3}, rank * 1.0)));
        EXPECT_TRUE(at::equal(saved.read(SavedKind::kOptimizer, "exp_avg/" + name),
                              at::full({2, 3}, 10.0 + rank)));
      }
    }
  }
}

TEST(SaverTest, FilesHoldAtMostSoManyBytesAndTransformersFindsThemByTheIndex) {
  const TempDirectory folder;
  SaveTarget target = target_of(folder.str(), 1);
  target.max_shard_bytes = 30;
  save_on(2, target, [](int rank, RankState& state) {
    for (int i = 0; i < 3; ++i)
      state.parameters.emplace_back("more" + std::to_string(3 * rank + i), at::full({5}, i));
  });
  const HfDirectory opened(folder / "ck");
  EXPECT_EQ(opened.names().size(), 9u);
  const TensorSource source = opened.shards().locate("more5");
  EXPECT_EQ(source.file->read("more5")[0].item<double>(), 2);
  EXPECT_TRUE(std::filesystem::exists(folder / "ck/model.safetensors.index.json"));
  EXPECT_TRUE(std::filesystem::exists(folder / "ck/optimizer/state-00002-of-00002.safetensors"));
  Checkpoint(folder / "ck").verify();
}

TEST(SaverTest, AParameterThatIsNotFiniteIsSavedWithAWarningThatNamesIt) {
  const TempDirectory folder;
  std::mutex mutex;
  std::set<std::string> said;
  set_log_sink([&](LogLevel, std::string_view message) {
    const std::lock_guard lock(mutex);
    said.emplace(message);
  });
  const double infinite = std::numeric_limits<double>::infinity();
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    said.clear();
    save_on(2, target_of(folder.str(), 5), [&](int rank, RankState& state) {
      at::Tensor& own = state.parameters.front().second;
      own = own.to(type);
      own[0][2] = rank == 0 ? 65504.0 : -infinite;  // the largest number that float16 holds
      if (rank == 1) own[1][1] = std::numeric_limits<double>::quiet_NaN();
      state.buffers.front().second = at::full({4}, -infinite);  // like an attention mask
    });
    EXPECT_EQ(said,
              std::set<std::string>{
                  "step 5 is saved with 2 numbers of 'layer1.weight' that are not finite; "
                  "look at the weights from which the run started"})
        << type;
  }
  set_log_sink({});
}

TEST(SaverTest, ASnapshotIsWhatWasThereWhenTheSaveBegan) {
  const TempDirectory folder;
  const Ranks transports = make_local_transports(2);
  run_ranks(transports, 1, nullptr, [&](Transport& transport) {
    const Group world = transport.world();
    Saver saver;
    EXPECT_FALSE(saver.finish(world));
    for (int round = 1; round <= 3; ++round) {
      RankState state = state_of_rank(transport.rank(), 2, 100 * round);
      ASSERT_FALSE(saver.begin(target_of(folder.str(), round), state, SaveFrom::kCopy, world));
      EXPECT_TRUE(saver.in_flight());
      for (auto* list : {&state.parameters, &state.optimizer, &state.buffers})
        for (auto& [name, tensor] : *list) tensor.zero_();
      std::optional<SaveOutcome> outcome;
      while (!outcome) outcome = saver.poll(world);
      EXPECT_FALSE(outcome->error);
      EXPECT_FALSE(saver.in_flight());
      const Checkpoint saved(folder / "ck");
      EXPECT_EQ(saved.manifest().step, round);
      EXPECT_EQ(saved.read(SavedKind::kWeights, "layer1.weight")[0][0].item<double>(),
                1 + 100 * round);
      EXPECT_EQ(saved.read(SavedKind::kWeights, "rope.table")[3].item<std::int64_t>(), 3);
      world.barrier().wait();
    }
  });
}

TEST(SaverTest, ASaveThatWasCutOffIsEndedOverANewConnection) {
  const TempDirectory folder;
  const Ranks first = make_local_transports(2), again = make_local_transports(2);
  std::vector<std::unique_ptr<Saver>> savers(2);
  EXPECT_THROW(run_ranks(first, 1, nullptr,
                         [&](Transport& transport) {
                           auto& saver = savers[transport.rank()] = std::make_unique<Saver>();
                           saver->begin(target_of(folder.str(), 4),
                                        state_of_rank(transport.rank(), 2), SaveFrom::kCopy,
                                        transport.world());
                           transport.world().barrier().wait();
                           if (transport.rank() == 1) throw std::runtime_error("injected");
                           for (;;) saver->poll(transport.world());
                         }),
               Error);
  run_ranks(again, 1, nullptr, [&](Transport& transport) {
    const auto outcome = savers[transport.rank()]->finish(transport.world());
    ASSERT_TRUE(outcome);
    EXPECT_FALSE(outcome->error);
    EXPECT_EQ(outcome->step, 4);
  });
  Checkpoint(folder / "ck").verify();
  EXPECT_EQ(list_directory(folder.str()), std::set<std::string>{"ck"});
}

TEST(SaverTest, ARankThatCannotWriteTellsAllAndNothingIsLeft) {
  const TempDirectory folder;
  const std::string failure =
      failure_of(save_on(3, target_of(folder.str(), 1), [](int rank, RankState& state) {
        if (rank == 1) state.parameters.front().second = at::ones({2}, at::kComplexDouble);
      }));
  EXPECT_NE(failure.find("'layer1.weight'"), std::string::npos) << failure;
  EXPECT_TRUE(list_directory(folder.str()).empty());
}

TEST(SaverTest, AFolderThatCannotBeMadeIsAnOutcomeOnAllRanks) {
  const TempDirectory folder;
  write_file(folder / "file", "x");
  SaveTarget target = target_of(folder.str(), 1);
  target.path = folder / "file/checkpoint";
  const auto outcomes = save_on(2, target);
  EXPECT_NE(failure_of(outcomes), "");
  EXPECT_EQ(outcomes.front().error->kind(), ErrorKind::kCheckpoint);
  EXPECT_EQ(list_directory(folder.str()), std::set<std::string>{"file"});
}

TEST(SaverTest, ABufferThatDiffersBetweenRanksIsRefused) {
  const TempDirectory folder;
  const auto outcomes = save_on(2, target_of(folder.str(), 1), [](int rank, RankState& state) {
    state.buffers.front().second[0] = rank;
  });
  EXPECT_NE(failure_of(outcomes).find("'rope.table' has different values"), std::string::npos);
  EXPECT_EQ(outcomes.front().error->kind(), ErrorKind::kUsage);
  EXPECT_TRUE(list_directory(folder.str()).empty());
}

// Simulates a full disk. A limit on the file size makes write() fail in the same place.
TEST(SaverTest, AFullDiskLeavesTheOldCheckpointAndNothingElse) {
  const TempDirectory folder;
  save_on(2, target_of(folder.str(), 5));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit limited{100'000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limited), 0);
  const auto outcomes = save_on(2, target_of(folder.str(), 6), [](int rank, RankState& state) {
    if (rank == 1) state.parameters.front().second = at::ones({100'000});
  });
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_NE(failure_of(outcomes).find("ulimit -f"), std::string::npos);
  EXPECT_EQ(list_directory(folder.str()), std::set<std::string>{"ck"});
  const Checkpoint old(folder / "ck");
  old.verify();
  EXPECT_EQ(old.manifest().step, 5);
}

TEST(SaverTest, WhatFollowsTheCommitFindsTheCheckpoint) {
  const TempDirectory folder;
  SaveTarget target = target_of(folder.str(), 5);
  int committed = 0;
  target.after_commit = [&] {
    Checkpoint(folder / "ck").verify();
    ++committed;
  };
  save_on(3, target);
  EXPECT_EQ(committed, 1);
}

TEST(SaverTest, InMarkerModeADamagedCheckpointMakesRoomAndAWholeOneDoesNot) {
  const TempDirectory folder;
  SaveTarget target = target_of(folder.str(), 5);
  target.commit = Commit::kMarker;
  save_on(1, target);
  EXPECT_NE(failure_of(save_on(1, target)).find("the directory is committed already"),
            std::string::npos);
  write_file(folder / "ck/config.json", "{}");
  EXPECT_EQ(failure_of(save_on(1, target)), "");
  Checkpoint(folder / "ck").verify();
  // Replaces even a checkpoint with an unreadable manifest.
  write_file(folder / "ck/manifest.json", "{");
  EXPECT_EQ(failure_of(save_on(1, target)), "");
  Checkpoint(folder / "ck").verify();
  EXPECT_EQ(list_directory(folder.str()).size(), 3u);
}

}  // namespace
}  // namespace sluice::test
