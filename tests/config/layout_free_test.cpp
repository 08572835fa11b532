// training.layout_free sets the numbers of shards and slices, and rejects keys that contradict it.
#include <gtest/gtest.h>

#include "config/layout_free.h"
#include "config/run_config.h"
#include "support/expect_error.h"

namespace sluice {
namespace {

RunConfig config_with(const Overrides& overrides) {
  Overrides all = {{"model.config", SLUICE_TEST_DATA "/reference/models/llama_untied/config.json"},
                   {"parallelism.pipeline_parallel_degree", "2"},
                   {"training.seq_len", "32"},
                   {"training.layout_free", "8"},
                   {"training.global_batch_size", "16"}};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return load_run_config("", all, {});
}

std::string refusal_of(const Overrides& overrides) {
  return test::error_of([&] { plan_of_config(config_with(overrides)); }).what();
}

TEST(LayoutFreeTest, FixesTheShardsThatTheMicrobatchesAllow) {
  const auto shards_of = [](const Overrides& overrides) {
    return config_with(overrides).parallelism.pipeline.data_parallel.shards;
  };
  EXPECT_EQ(shards_of({}), 8);
  EXPECT_EQ(shards_of({{"parallelism.data_parallel_degree", "4"}}), 8);
  EXPECT_EQ(shards_of({{"training.global_batch_size", "12"}}), 4);
  EXPECT_EQ(
      shards_of({{"training.global_batch_size", "12"}, {"parallelism.data_parallel_degree", "4"}}),
      4);
}

TEST(LayoutFreeTest, FixesTheSlicesThatTheHeadsAllow) {
  EXPECT_EQ(plan_of_config(config_with({})).options.tensor_parallel.slices, 2);
  const Plan plan = plan_of_config(config_with({{"parallelism.tensor_parallel_degree", "2"}}));
  EXPECT_EQ(plan.options.tensor_parallel.slices, 2);
  EXPECT_EQ(
      plan_of_config(config_with({{"training.layout_free", "1"}})).options.tensor_parallel.slices,
      1);
}

TEST(LayoutFreeTest, LeavesAModelWholeWhoseLayersAreNotDivided) {
  const Plan plan =
      plan_of_config(config_with({{"model.config", ""},
                                  {"model.path", SLUICE_TEST_DATA "/reference/models/llama_untied"},
                                  {"lora.rank", "4"}}));
  EXPECT_EQ(plan.options.tensor_parallel.num_slices(), 1);
  EXPECT_EQ(plan.options.data_parallel.shards, 8);
}

TEST(LayoutFreeTest, RefusesADegreeThatDoesNotDivideIt) {
  EXPECT_EQ(refusal_of({{"parallelism.data_parallel_degree", "3"}}),
            "parallelism.data_parallel_degree = 3 does not divide training.layout_free = 8; "
            "--parallelism.data_parallel_degree; write 1, 2, 4 or 8");
}

TEST(LayoutFreeTest, RefusesKeysThatContradictIt) {
  for (const auto& [key, value] :
       {std::pair("data_parallel_shards", "8"), std::pair("tensor_parallel_slices", "2"),
        std::pair("reduction", "fast"), std::pair("reduce_grad_per_microbatch", "true")}) {
    const std::string name = std::string("parallelism.") + key;
    EXPECT_TRUE(refusal_of({{name, value}})
                    .starts_with(name + " and training.layout_free exclude "
                                        "each other, since "))
        << refusal_of({{name, value}});
  }
}

TEST(LayoutFreeTest, SaysItsPriceInMemory) {
  const RunConfig config = config_with({});
  const std::string price = layout_free_memory_cost(config, plan_of_config(config));
  EXPECT_TRUE(
      price.starts_with("training.layout_free = 8: gradients add up in 8 shards, each "
                        "layer is computed in 2 slices; its price on the fullest rank: "))
      << price;
  EXPECT_EQ(
      layout_free_memory_cost(config_with({{"training.layout_free", "0"}}), plan_of_config(config)),
      "");
}

TEST(LayoutFreeTest, NamesTheAxesThatChangeTheBits) {
  const RunConfig free = config_with({}), not_free = config_with({{"training.layout_free", "0"}});
  EXPECT_EQ(detail::layout_invariance_text(free, plan_of_config(free)),
            "bits: the same for any pipeline_parallel_degree and schedule but LoopedBFS, "
            "data_parallel_degree 1, "
            "2, 4 or 8, tensor_parallel_degree 1 or 2");
  EXPECT_EQ(detail::layout_invariance_text(not_free, plan_of_config(not_free)),
            "bits: the same for any pipeline_parallel_degree and schedule but LoopedBFS; another "
            "data_parallel_degree or tensor_parallel_degree changes the bits "
            "(training.layout_free = N keeps them for degrees that divide N)");
}

}  // namespace
}  // namespace sluice
