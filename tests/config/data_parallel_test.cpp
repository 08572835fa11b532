#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "config/batch_sizes.h"
#include "config/run_config.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

const std::string kModel =
    std::string(SLUICE_TEST_DATA) + "/reference/models/llama_untied/config.json";

RunConfig config(const Overrides& overrides) {
  Overrides all = {{"model.config", kModel},
                   {"parallelism.pipeline_parallel_degree", "2"},
                   {"training.seq_len", "32"}};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return load_run_config("", all, {});
}

std::string refusal(const Overrides& overrides) {
  const Error error = test::error_of([&] { plan_of_config(config(overrides)); });
  EXPECT_EQ(error.exit_code(), 2) << error.what();
  return error.what();
}

TEST(DataParallelConfigTest, ABatchIsCountedOnceOrForEveryReplica) {
  BatchSizes sizes = batch_sizes(config({{"parallelism.data_parallel_degree", "3"},
                                         {"training.local_batch_size", "4"},
                                         {"training.microbatch_size", "2"}}));
  EXPECT_EQ(sizes.global_batch, 12);
  EXPECT_EQ(sizes.local_batch, 4);
  EXPECT_EQ(sizes.num_microbatches, 2);
  sizes = batch_sizes(config({{"parallelism.data_parallel_degree", "4"},
                              {"training.global_batch_size", "24"},
                              {"training.microbatch_size", "3"}}));
  EXPECT_EQ(sizes.global_batch, 24);
  EXPECT_EQ(sizes.local_batch, 6);
  EXPECT_EQ(sizes.num_microbatches, 2);
}

TEST(DataParallelConfigTest, AGlobalBatchDividesOrNamesTheNearest) {
  EXPECT_EQ(refusal({{"parallelism.data_parallel_degree", "3"},
                     {"training.microbatch_size", "2"},
                     {"training.global_batch_size", "16"}}),
            "training.global_batch_size = 16 is not a multiple of "
            "parallelism.data_parallel_degree x training.microbatch_size = 6; "
            "--training.global_batch_size; the nearest batch is 12 or 18");
  EXPECT_EQ(refusal({{"training.local_batch_size", "16"}, {"training.global_batch_size", "16"}}),
            "training.local_batch_size and training.global_batch_size exclude each other; "
            "--training.global_batch_size; keep one of them");
}

std::string batch_of(const std::string& file_text,
                     const std::map<std::string, std::string>& environment,
                     const Overrides& overrides) {
  const test::TempDirectory folder;
  test::write_file(folder / "run.toml", "[training]\n" + file_text + "\n");
  try {
    const RunConfig run = load_run_config(folder / "run.toml", overrides, environment);
    return std::to_string(run.training.local_batch_size) + " " +
           run.origins.at("training.local_batch_size") + ", " +
           std::to_string(run.training.global_batch_size) + " " +
           run.origins.at("training.global_batch_size");
  } catch (const Error& error) {
    return error.fact();
  }
}

TEST(DataParallelConfigTest, ABatchOfALaterSourceTakesThePlaceOfTheOther) {
  const std::string local = "training.local_batch_size", global = "training.global_batch_size";
  EXPECT_EQ(batch_of("local_batch_size = 4", {}, {{global, "12"}}),
            "8 default, 12 --training.global_batch_size");
  EXPECT_EQ(batch_of("global_batch_size = 12", {}, {{local, "4"}}),
            "4 --training.local_batch_size, 0 default");
  EXPECT_EQ(batch_of("local_batch_size = 4", {{"SLUICE_TRAINING_GLOBAL_BATCH_SIZE", "12"}}, {}),
            "8 default, 12 SLUICE_TRAINING_GLOBAL_BATCH_SIZE");
  EXPECT_EQ(batch_of("local_batch_size = 4", {{"SLUICE_TRAINING_GLOBAL_BATCH_SIZE", "12"}},
                     {{local, "2"}}),
            "2 --training.local_batch_size, 0 default");
  EXPECT_EQ(
      batch_of("microbatch_size = 2", {{"SLUICE_TRAINING_LOCAL_BATCH_SIZE", "4"}}, {{global, "0"}}),
      "4 SLUICE_TRAINING_LOCAL_BATCH_SIZE, 0 --training.global_batch_size");
  const std::string both =
      "training.local_batch_size and training.global_batch_size exclude each other";
  EXPECT_EQ(batch_of("local_batch_size = 4\nglobal_batch_size = 12", {}, {}), both);
  EXPECT_EQ(batch_of("local_batch_size = 8\nglobal_batch_size = 16", {}, {}), both);
  EXPECT_EQ(batch_of("", {}, {{local, "4"}, {global, "12"}}), both);
}

TEST(DataParallelConfigTest, ShardsDivideOrNameTheNearestBatch) {
  EXPECT_EQ(refusal({{"parallelism.data_parallel_degree", "2"},
                     {"parallelism.data_parallel_shards", "8"},
                     {"training.local_batch_size", "12"},
                     {"training.microbatch_size", "2"}}),
            "parallelism.data_parallel_shards = 8 does not divide the 12 microbatches of a step; "
            "--parallelism.data_parallel_shards; the nearest training.local_batch_size is 8 or 16");
  EXPECT_EQ(refusal({{"parallelism.data_parallel_degree", "2"},
                     {"parallelism.data_parallel_shards", "4"},
                     {"training.global_batch_size", "6"}}),
            "parallelism.data_parallel_shards = 4 does not divide the 6 microbatches of a step; "
            "--parallelism.data_parallel_shards; the nearest training.global_batch_size is 4 or 8");
  EXPECT_EQ(refusal({{"parallelism.data_parallel_degree", "3"},
                     {"parallelism.data_parallel_shards", "4"}}),
            "parallelism.data_parallel_shards = 4 is not a multiple of "
            "parallelism.data_parallel_degree = 3; --parallelism.data_parallel_shards; the nearest "
            "is 3 or 6");
}

TEST(DataParallelConfigTest, RanksThatShareLayersAreRanksOfTheRun) {
  const Plan plan = plan_of_config(config({{"parallelism.data_parallel_degree", "2"},
                                           {"parallelism.tensor_parallel_degree", "2"},
                                           {"parallelism.rank_order", "dp,pp,cp,tp"}}));
  EXPECT_EQ(plan.program.mesh.num_ranks(), 8);
  EXPECT_EQ(plan.program.mesh.size(Axis::kTp), 2);
  EXPECT_EQ(plan.ranks.size(), 2U);
  const std::string text = describe_plan(plan, {});
  EXPECT_NE(text.find("tensor parallel: 2 ranks at each place of a pipeline, 8 ranks in total"),
            std::string::npos)
      << text;
  EXPECT_EQ(nlohmann::json::parse(plan_json(plan)).at("tensor_parallel").dump(),
            R"({"degree":2,"sequence_parallel":true,"slices":2})");
  EXPECT_EQ(refusal({{"parallelism.tensor_parallel_degree", "4"},
                     {"parallelism.tensor_parallel_slices", "2"}})
                .substr(0, 40),
            "parallelism.tensor_parallel_degree = 4 r");
}

TEST(DataParallelConfigTest, NamesTheNearestWord) {
  EXPECT_EQ(
      refusal({{"parallelism.rank_order", "dp,ppp"}}),
      "parallelism.rank_order = \"dp,ppp\" is not an order of ranks; --parallelism.rank_order; "
      "name pp, dp, cp and tp, each once; did you mean 'dp,pp'?");
  EXPECT_EQ(refusal({{"parallelism.rank_order", "dp,pp,cp,tq"}}),
            "parallelism.rank_order = \"dp,pp,cp,tq\" is not an order of ranks; "
            "--parallelism.rank_order; name pp, dp, cp and tp, each once; did you mean "
            "'dp,pp,cp,tp'?");
  EXPECT_EQ(refusal({{"parallelism.reduction", "exakt"}}),
            "'exakt' is not a value of parallelism.reduction; --parallelism.reduction; did "
            "you mean 'exact'?");
  EXPECT_EQ(refusal({{"parallelism.data_parallel_degree", "100000000000"}}),
            "parallelism.data_parallel_degree: the integer 100000000000 is out of range; "
            "--parallelism.data_parallel_degree; write a number 1 to 65536");
  EXPECT_EQ(
      refusal({{"comm.heartbeat_seconds", "0"}}),
      "comm.heartbeat_seconds: the integer 0 is out of range; --comm.heartbeat_seconds; write a "
      "number 0.1 to 10000000");
}

TEST(DataParallelConfigTest, NcclOnTheCpuIsRefused) {
  EXPECT_EQ(refusal({{"parallelism.transport", "nccl"}, {"training.device", "cpu"}}),
            "parallelism.transport = \"nccl\" is for GPUs, and training.device is \"cpu\"; "
            "--parallelism.transport; write \"gloo\", or set training.device to \"cuda\"");
  EXPECT_NO_THROW(config({{"parallelism.transport", "nccl"}}));
  EXPECT_NO_THROW(config({{"parallelism.transport", "gloo"}}));
}

TEST(DataParallelConfigTest, ThePlanIsOfOneReplicaOfSeveral) {
  const Plan plan = plan_of_config(config({{"parallelism.data_parallel_degree", "4"},
                                           {"parallelism.data_parallel_shards", "8"},
                                           {"parallelism.rank_order", "dp,pp"},
                                           {"parallelism.zero3", "true"},
                                           {"training.global_batch_size", "16"}}));
  EXPECT_EQ(plan.program.num_microbatches, 4);
  EXPECT_EQ(plan.program.num_ranks(), 2);
  EXPECT_EQ(plan.program.mesh.num_ranks(), 8);
  EXPECT_EQ(plan.program.mesh.group(0, Axis::kPp), (std::vector<int>{0, 1}));
  EXPECT_EQ(plan.program.mesh.size(Axis::kDpShard), 4);
  EXPECT_EQ(plan.options.data_parallel, (DataParallel{.degree = 4, .shards = 8, .zero3 = true}));
}

TEST(DataParallelConfigTest, RefusesInTheWordsOfTheConfiguration) {
  EXPECT_EQ(refusal({{"parallelism.data_parallel_degree", "2"},
                     {"parallelism.zero3", "true"},
                     {"parallelism.reduce_grad_per_microbatch", "true"}}),
            "parallelism.zero3 and parallelism.reduce_grad_per_microbatch exclude each other; "
            "--parallelism.reduce_grad_per_microbatch; reduce once a step where parameters are "
            "sharded");
  const Plan fast = plan_of_config(
      config({{"parallelism.data_parallel_shards", "4"}, {"parallelism.reduction", "fast"}}));
  EXPECT_EQ(fast.notes,
            (std::vector<std::string>{"parallelism.data_parallel_shards = 4 has no "
                                      "meaning: the transport adds up in its own order"}));
}

TEST(DataParallelConfigTest, AnotherNumberOfReplicasIsTheSameRun) {
  const auto key_values = [](const Overrides& overrides) {
    return show_config_changes(as_one_replica(config(overrides)));
  };
  const auto same = [](const RunConfig& a, const RunConfig& b) {
    return a.training.local_batch_size == b.training.local_batch_size &&
           a.training.global_batch_size == b.training.global_batch_size &&
           a.parallelism.pipeline.data_parallel == b.parallelism.pipeline.data_parallel;
  };
  const RunConfig one = as_one_replica(config({{"parallelism.data_parallel_shards", "4"}}));
  EXPECT_EQ(one.training.local_batch_size, 8);
  EXPECT_EQ(one.parallelism.pipeline.data_parallel, DataParallel{.shards = 4});
  EXPECT_TRUE(same(one, as_one_replica(config({{"parallelism.data_parallel_degree", "4"},
                                               {"training.local_batch_size", "2"}}))));
  EXPECT_TRUE(same(one, as_one_replica(config({{"parallelism.data_parallel_degree", "2"},
                                               {"parallelism.data_parallel_shards", "4"},
                                               {"training.global_batch_size", "8"}}))));
  EXPECT_FALSE(same(one, as_one_replica(config({{"parallelism.data_parallel_degree", "2"},
                                                {"training.global_batch_size", "8"}}))));
  EXPECT_FALSE(same(one, as_one_replica(config({{"parallelism.data_parallel_degree", "4"},
                                                {"parallelism.reduction", "fast"},
                                                {"training.local_batch_size", "2"}}))));
  // A single replica without shards is not expanded.
  EXPECT_EQ(key_values({}), show_config_changes(config({})));
}

}  // namespace
}  // namespace sluice
