// Compares our splits with the recorded answers of the peers' split functions in tests/reference.
// Where a convention offers the function, make_partition() runs the same cases. Some peers lose or
// repeat layers without an error (peer_hazard); we must reject these cases.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "plan/peers/automodel.h"
#include "sluice/error.h"
#include "sluice/partition.h"
#include "sluice/parts/peers.h"
#include "support/peer_functions.h"
#include "support/reference_cases.h"

namespace sluice::partition_reference_test {
namespace {

using Json = nlohmann::json;
using namespace testing;  // the peers' functions that only tests call

template <typename Answer>
void expect_case(const Json& test_case, const Answer& answer) {
  SCOPED_TRACE(test_case.at("id").get<std::string>() + " " + test_case.at("input").dump());
  const bool refused = test_case.contains("error") || test_case.contains("peer_hazard");
  try {
    const Json found = answer(test_case.at("input"));
    if (refused) {
      ADD_FAILURE() << "accepted: " << found;
    } else {
      EXPECT_EQ(found, test_case.at("expect"));
    }
  } catch (const Error& error) {
    EXPECT_TRUE(refused) << error.what();
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  }
}

std::optional<int> optional_int(const Json& value) {
  return value.is_null() ? std::nullopt : std::optional<int>(value.get<int>());
}

Rounding rounding_of(const Json& value) {
  if (value.is_null()) return Rounding::kNone;
  return value == "up" ? Rounding::kUp : Rounding::kDown;
}

TEST(PartitionReferenceTest, CalculatesVirtualStagesAsAutoModelDoes) {
  for (const Json& test_case : reference_cases("virtual_stages.json", "calculate_virtual_stages")) {
    expect_case(test_case, [](const Json& in) {
      const VirtualStages stages = calculate_virtual_stages(
          in.at("num_layers"), optional_int(in.at("layers_per_stage")), in.at("pp_size"),
          in.at("is_single_stage_schedule"), rounding_of(in.at("round_to_pp_multiple")));
      return Json{{"num_virtual_stages", stages.num_stages},
                  {"stages_per_rank", stages.stages_per_rank}};
    });
  }
}

// Runs the same counts through the two conventions, which also reject more stages than layers.
TEST(PartitionReferenceTest, UsesVirtualStagesInTheConventionsThatCountByThem) {
  int compared = 0;
  for (const Json& test_case : reference_cases("virtual_stages.json", "calculate_virtual_stages")) {
    const Json& in = test_case.at("input");
    if (in.at("layers_per_stage").is_number() && in.at("layers_per_stage") <= 0) continue;
    for (const char* convention : {"sluice", "automodel"}) {
      PartitionOptions options;
      options.convention = convention;
      options.num_ranks = in.at("pp_size");
      options.schedule = in.at("is_single_stage_schedule") ? "1F1B" : "Interleaved1F1B";
      options.layers_per_stage = optional_int(in.at("layers_per_stage")).value_or(0);
      options.rounding = rounding_of(in.at("round_to_pp_multiple"));
      const ModelSpec model = model_spec_of_blocks(in.at("num_layers"));
      const bool fits = test_case.contains("expect") &&
                        test_case.at("expect").at("num_virtual_stages") <= in.at("num_layers");
      SCOPED_TRACE(test_case.at("id").get<std::string>());
      if (!fits) {
        EXPECT_THROW(make_partition(model, options), Error);
        continue;
      }
      const Partition partition = make_partition(model, options);
      EXPECT_EQ(partition.num_stages(), test_case.at("expect").at("num_virtual_stages"));
      EXPECT_EQ(partition.stages_per_rank(), test_case.at("expect").at("stages_per_rank"));
      ++compared;
    }
  }
  EXPECT_GT(compared, 50);
}

HfStageOptions hf_options(const Json& in) {
  HfStageOptions options;
  options.include_embeddings = in.value("include_embeddings", true);
  options.include_lm_head = in.value("include_lm_head", true);
  options.include_rotary_emb = in.value("include_rotary_emb", true);
  options.include_multimodal_encoders = in.value("include_multimodal_encoders", true);
  if (in.contains("extra_module_fqns") && !in.at("extra_module_fqns").is_null()) {
    options.extra_module_fqns = in.at("extra_module_fqns").get<std::vector<std::string>>();
  }
  options.fqn_prefix = in.value("fqn_prefix", options.fqn_prefix);
  options.lm_head_fqn = in.value("lm_head_fqn", options.lm_head_fqn);
  return options;
}

TEST(PartitionReferenceTest, NamesHuggingFaceModulesAsAutoModelDoes) {
  for (const Json& test_case :
       reference_cases("hf_fqns.json", "generate_hf_model_fqn_per_model_part")) {
    expect_case(test_case, [](const Json& in) {
      return Json{
          {"module_fqns_per_stage", generate_hf_model_fqn_per_model_part(
                                        in.at("num_stages"), in.at("num_layers"), hf_options(in))}};
    });
    // a value below 1 in options would mean "not set"
    if (test_case.at("input").at("num_stages") < 1) continue;
    expect_case(test_case, [](const Json& in) {
      const HfStageOptions ends = hf_options(in);
      PartitionOptions options;
      options.convention = "automodel";
      options.num_stages = in.at("num_stages");
      options.embeddings = ends.include_embeddings;
      options.lm_head = ends.include_lm_head;
      options.rotary = ends.include_rotary_emb;
      options.multimodal = ends.include_multimodal_encoders;
      options.extra_modules = ends.extra_module_fqns;
      options.prefix = ends.fqn_prefix;
      options.lm_head_name = ends.lm_head_fqn;
      Json stages = Json::array();
      for (const StageContent& stage :
           make_partition(model_spec_of_blocks(in.at("num_layers")), options).stages) {
        stages.push_back(stage.modules);
      }
      return Json{{"module_fqns_per_stage", stages}};
    });
  }
}

bool is_first_generation(const Json& test_case) {
  return test_case.at("version").get<std::string>().starts_with("cec7fb6fc");
}

TEST(PartitionReferenceTest, GeneratesSplitPointsOfBothTorchtitanGenerations) {
  int first_generation = 0;
  for (const Json& test_case : reference_cases("split_points.json", "generate_split_points")) {
    const bool first = is_first_generation(test_case);
    first_generation += first;
    expect_case(test_case, [first](const Json& in) {
      const std::string schedule = in.at("schedule");
      return Json{
          {"split_points",
           first ? generate_split_points_2024(schedule, in.at("pp_degree"), in.at("num_layers"))
                 : generate_split_points(schedule, in.at("pp_degree"), in.at("num_layers"),
                                         optional_int(in.at("num_layers_per_stage")),
                                         in.at("input_weight"), in.at("output_weight"))}};
    });
  }
  EXPECT_GT(first_generation, 0);
}

// V schedules run two stages per rank. Unlike the function, the convention rejects any other
// number.
TEST(PartitionReferenceTest, SplitsBothTorchtitanGenerationsUnderTheirConventions) {
  for (const Json& test_case : reference_cases("split_points.json", "generate_split_points")) {
    const Json& input = test_case.at("input");
    // an empty schedule in options would mean any schedule
    if (input.at("schedule") == "") continue;
    const bool first = is_first_generation(test_case);
    const bool v =
        find_schedule(input.at("schedule").get<std::string>()).placement == Placement::kV;
    if (v && test_case.contains("expect") &&
        test_case.at("expect").at("split_points").size() + 1 !=
            2 * input.at("pp_degree").get<std::size_t>()) {
      continue;
    }
    expect_case(test_case, [first](const Json& in) {
      PartitionOptions options;
      options.convention = first ? "torchtitan-2024" : "torchtitan";
      options.schedule = in.at("schedule").get<std::string>();
      options.num_ranks = in.at("pp_degree");
      if (!first) {
        options.layers_per_stage = optional_int(in.at("num_layers_per_stage")).value_or(0);
        options.first_stage_weight = in.at("input_weight").get<int>();
        options.last_stage_weight = in.at("output_weight").get<int>();
      }
      return Json{
          {"split_points",
           make_partition(model_spec_of_blocks(in.at("num_layers")), options).split_points}};
    });
  }
}

TEST(PartitionReferenceTest, CountsStagesAsCurrentTorchtitanDoes) {
  for (const Json& test_case : reference_cases("split_points.json", "get_pipeline_metadata")) {
    expect_case(test_case, [](const Json& in) {
      return Json{{"num_virtual_stages",
                   get_pipeline_metadata(
                       in.at("schedule").get<std::string>(), in.at("pp_degree"),
                       in.at("num_layers"), optional_int(in.at("layers_per_stage")),
                       in.at("first_stage_less_layers"), in.at("last_stage_less_layers"))}};
    });
  }
}

TEST(PartitionReferenceTest, NamesModulesAsCurrentTorchtitanDoes) {
  for (const Json& test_case :
       reference_cases("split_points.json", "generate_llm_fqn_per_model_part")) {
    expect_case(test_case, [](const Json& in) {
      return Json{{"module_fqns_per_stage",
                   generate_llm_fqn_per_model_part(in.at("num_stages"), in.at("num_layers"),
                                                   in.at("input_weight"), in.at("output_weight"))}};
    });
    // a value below 1 in options would mean "not set"
    if (test_case.at("input").at("num_stages") < 1) continue;
    expect_case(test_case, [](const Json& in) {
      PartitionOptions options;
      options.convention = "torchtitan-current";
      options.num_stages = in.at("num_stages");
      options.first_stage_weight = in.at("input_weight").get<int>();
      options.last_stage_weight = in.at("output_weight").get<int>();
      Json stages = Json::array();
      for (const StageContent& stage :
           make_partition(model_spec_of_blocks(in.at("num_layers")), options).stages) {
        stages.push_back(stage.modules);
      }
      return Json{{"module_fqns_per_stage", stages}};
    });
  }
}

TEST(PartitionReferenceTest, SplitsByHandAsTheTorchtitanSeedDoes) {
  for (const Json& test_case :
       reference_cases("split_points.json", "pipeline_llama_manual_split")) {
    expect_case(test_case, [](const Json& in) {
      const Json& points = in.at("split_points");
      Json ranks = Json::array();
      for (const auto& chunks : pipeline_llama_manual_split(
               in.at("num_layers"), in.at("pp_size"), in.at("schedule").get<std::string>(),
               points.is_null() ? std::vector<std::string>()
                                : points.get<std::vector<std::string>>(),
               optional_int(in.at("layers_per_stage")))) {
        Json& rank = ranks.emplace_back(Json::array());
        for (const ManualStage& chunk : chunks) {
          rank.push_back({{"stage", chunk.stage},
                          {"num_stages", chunk.num_stages},
                          {"modules", chunk.modules}});
        }
      }
      return Json{{"ranks", ranks}};
    });
  }
}

// The peer invents stages for a rank that does not exist (docs/compatibility.md).
TEST(PartitionReferenceTest, FindsTheStagesOfARankThatExists) {
  for (Json test_case : reference_cases("split_points.json", "stage_ids_this_rank")) {
    const Json& input = test_case.at("input");
    if (input.at("pp_rank") >= input.at("pp_size")) test_case["peer_hazard"] = "no such rank";
    expect_case(test_case, [](const Json& in) {
      return Json{
          {"stages", stage_ids_this_rank(in.at("pp_rank"), in.at("pp_size"), in.at("num_stages"),
                                         in.at("style").get<std::string>())}};
    });
  }
}

TEST(PartitionReferenceTest, PlacesStagesAsTheScheduleNeeds) {
  for (const Json& test_case :
       reference_cases("split_points.json", "stages_of_rank_for_schedule")) {
    expect_case(test_case, [](const Json& in) {
      PartitionOptions options;
      options.schedule = in.at("schedule").get<std::string>();
      options.num_ranks = in.at("pp_degree");
      options.num_stages = in.at("num_stages");
      const Partition partition =
          make_partition(model_spec_of_blocks(in.at("num_stages")), options);
      return Json{{"stages", partition.stage_map.stages_of(in.at("pp_rank"))}};
    });
  }
}

TEST(PartitionReferenceTest, CreatesPartitionsAsNeuronxDoes) {
  for (const Json& test_case : reference_cases("nxd_partition.json", "create_partitions")) {
    const Json& input = test_case.at("input");
    const int pp = input.at("pipeline_parallel_size");
    const int num_stages = pp * input.at("virtual_pipeline_size").get<int>();
    const std::string format = input.at("layer_name_format");
    std::vector<std::string> names;
    for (int i = 0; i < input.at("num_layers").get<int>(); ++i) {
      names.push_back(std::string(format).replace(format.find("{}"), 2, std::to_string(i)));
    }
    Json by_function = test_case;
    if (by_function.contains("expect")) {
      by_function["expect"] = test_case.at("expect").at("pipeline_cuts");
    }
    expect_case(by_function,
                [&](const Json&) { return Json(create_partitions(num_stages, names)); });
    Json by_convention = test_case;
    if (by_convention.contains("expect")) by_convention["expect"].erase("pipeline_cuts");
    expect_case(by_convention, [&](const Json& in) {
      PartitionOptions options;
      options.convention = "neuronx";
      options.schedule.reset();
      options.num_ranks = pp;
      options.num_stages = num_stages;
      const Partition partition =
          make_partition(model_spec_of_blocks(in.at("num_layers")), options);
      Json layers_per_stage = Json::array(), stage_of_layer = Json::array();
      for (const StageContent& stage : partition.stages) {
        layers_per_stage.push_back(stage.num_layers);
        for (int i = 0; i < stage.num_layers; ++i) stage_of_layer.push_back(stage.stage);
      }
      return Json{{"layers_per_stage", layers_per_stage},
                  {"stage_of_layer", stage_of_layer},
                  {"rank_of_stage", partition.stage_map.ranks()}};
    });
  }
}

TEST(PartitionReferenceTest, FindsSharedWeightsAsNeuronxDoes) {
  for (const Json& test_case :
       reference_cases("nxd_partition.json", "analyze_shared_weights_across_stages")) {
    expect_case(test_case, [](const Json& in) {
      using Stages = std::vector<std::vector<std::pair<std::string, std::string>>>;
      const SharedWeights shared =
          analyze_shared_weights_across_stages(in.at("pp_size"), in.at("stages").get<Stages>());
      return Json{{"shared_groups", shared.groups},
                  {"shared_flag_of_param_on_rank", shared.shared_on_rank}};
    });
  }
}

TEST(PartitionReferenceTest, RelaysLiveValuesAsNeuronxDoes) {
  for (const Json& test_case :
       reference_cases("nxd_partition.json", "live_values_between_stages")) {
    expect_case(test_case, [](const Json& in) {
      std::vector<StageValues> stages;
      for (const Json& stage : in.at("stages")) {
        stages.push_back({stage.at("consumes").get<std::vector<std::string>>(),
                          stage.at("produces").get<std::vector<std::string>>()});
      }
      Json traffic = Json::array();
      for (const StageTraffic& stage : live_values_between_stages(
               stages, in.at("model_inputs").get<std::vector<std::string>>())) {
        traffic.push_back({{"recv", stage.recv}, {"send", stage.send}});
      }
      return Json{{"stages", traffic}};
    });
  }
}

TEST(PartitionReferenceTest, SplitsBatchesAsTorchDoes) {
  for (const Json& test_case :
       reference_cases("microbatch_split.json", "split_batch_into_microbatches")) {
    expect_case(test_case, [](const Json& in) {
      Json sizes = Json::array(), starts = Json::array();
      for (const RowRange& range :
           split_batch_into_microbatches(in.at("batch"), in.at("num_microbatches"))) {
        sizes.push_back(range.size);
        starts.push_back(range.start);
      }
      const std::size_t got = sizes.size();
      return Json{{"sizes", sizes}, {"starts", starts}, {"got", got}};
    });
  }
}

TEST(PartitionReferenceTest, ChecksModelsAsAutoModelDoes) {
  for (const Json& test_case :
       reference_cases("nemo_stage_params.json", "validate_hf_model_for_pipeline_support")) {
    expect_case(test_case, [](const Json& in) {
      validate_hf_model_for_pipeline_support(read_model_spec(std::string(SLUICE_TEST_DATA) +
                                                             "/reference/models/" +
                                                             in.at("model").get<std::string>()));
      return Json{{"accepted", true}};
    });
  }
}

// AutoModel rejects tied models before it reaches the split. We place DualPipeV in a V like torch
// and current torchtitan; AutoModel places it in a loop.
TEST(PartitionReferenceTest, DistributesParametersAndShapesAsAutoModelDoes) {
  const std::string models = std::string(SLUICE_TEST_DATA) + "/reference/models/";
  for (Json test_case : reference_cases("nemo_stage_params.json", "split_model_into_stages")) {
    const Json input = test_case.at("input");
    const ModelSpec model = read_model_spec(models + input.at("model").get<std::string>());
    if (test_case.contains("disagreement")) {
      ASSERT_EQ(input.at("schedule"), "DualPipeV");
      Json& ranks = test_case.at("expect").at("ranks");
      std::swap(ranks[0][1], ranks[1][1]);
    }
    expect_case(test_case, [&](const Json& in) {
      PartitionOptions options;
      options.convention = "automodel";
      options.schedule = in.at("schedule").get<std::string>();
      options.num_ranks = in.at("pp_size");
      options.layers_per_stage = optional_int(in.at("layers_per_stage")).value_or(0);
      options.rounding = rounding_of(in.at("round_to_pp_multiple"));
      if (const Json& names = in.at("module_names_per_stage"); !names.is_null()) {
        options.modules = names.get<ModuleNames>();
      }
      const Partition partition = make_partition(model, options);
      const std::vector<StageShape> shapes =
          stage_shapes(model, partition, in.at("microbatch_size"), in.at("seq_len"));
      Json ranks = Json::array();
      for (int r = 0; r < partition.num_ranks(); ++r) ranks.push_back(Json::array());
      for (const StageContent& stage : partition.stages) {
        ranks[stage.rank].push_back({{"stage", stage.stage},
                                     {"num_stages", partition.num_stages()},
                                     {"parameters", parameter_names(model, stage)},
                                     {"input_shape", shapes[stage.stage].input},
                                     {"output_shape", shapes[stage.stage].output}});
      }
      return Json{{"ranks", ranks}};
    });
  }
}

}  // namespace
}  // namespace sluice::partition_reference_test
