// Compares the peers' functions of an installed sluice with results of the original sources.
// usage: peer_functions REFERENCE_DIRECTORY
#include <sluice/error.h>
#include <sluice/parts/peers.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace {

using Json = nlohmann::json;

int compared = 0, wrong = 0;

std::optional<int> optional_int(const Json& value) {
  return value.is_null() ? std::nullopt : std::optional<int>(value.get<int>());
}

bool is_of_another_generation(const Json& test_case) {
  return test_case.value("version", "").starts_with("cec7fb6fc");
}

// Compares all cases of `function`. `call` returns the value that a case has under `key`.
template <typename Call>
void compare(const std::string& directory, const char* file, const char* function, const char* key,
             Call call) {
  std::ifstream in(directory + "/" + file);
  const int before = compared;
  const Json reference = Json::parse(in);
  for (const Json& test_case : reference.at("cases")) {
    if (test_case.at("function").get<std::string>() != function ||
        is_of_another_generation(test_case))
      continue;
    const Json& input = test_case.at("input");
    // The original returns a result for a rank that does not exist, or loses layers.
    const bool refused = test_case.contains("error") || test_case.contains("peer_hazard") ||
                         (input.contains("pp_rank") && input.at("pp_rank") >= input.at("pp_size"));
    Json found;
    try {
      found = call(input);
    } catch (const sluice::Error&) {
      found = nullptr;
    }
    ++compared;
    if (found == (refused ? Json() : test_case.at("expect").at(key))) continue;
    ++wrong;
    std::cout << test_case.at("id") << ' ' << function << ": " << found << '\n';
  }
  if (compared == before) std::cout << function << ": no case\n", ++wrong;
}

sluice::HfStageOptions stage_options(const Json& in) {
  sluice::HfStageOptions options;
  options.include_embeddings = in.value("include_embeddings", true);
  options.include_lm_head = in.value("include_lm_head", true);
  options.include_rotary_emb = in.value("include_rotary_emb", true);
  options.include_multimodal_encoders = in.value("include_multimodal_encoders", true);
  if (in.contains("extra_module_fqns") && !in.at("extra_module_fqns").is_null())
    options.extra_module_fqns = in.at("extra_module_fqns").get<std::vector<std::string>>();
  options.fqn_prefix = in.value("fqn_prefix", options.fqn_prefix);
  options.lm_head_fqn = in.value("lm_head_fqn", options.lm_head_fqn);
  return options;
}

std::vector<std::string> layer_names(const Json& in) {
  const std::string format = in.at("layer_name_format");
  std::vector<std::string> names;
  for (int i = 0; i < in.at("num_layers").get<int>(); ++i)
    names.push_back(std::string(format).replace(format.find("{}"), 2, std::to_string(i)));
  return names;
}

}  // namespace

int main(int, char** arguments) {
  using namespace sluice;
  const std::string directory = arguments[1];
  compare(directory, "split_points.json", "stage_ids_this_rank", "stages", [](const Json& in) {
    return stage_ids_this_rank(in.at("pp_rank"), in.at("pp_size"), in.at("num_stages"),
                               in.at("style").get<std::string>());
  });
  compare(directory, "split_points.json", "generate_split_points", "split_points",
          [](const Json& in) {
            return generate_split_points(in.at("schedule").get<std::string>(), in.at("pp_degree"),
                                         in.at("num_layers"),
                                         optional_int(in.at("num_layers_per_stage")),
                                         in.at("input_weight"), in.at("output_weight"));
          });
  compare(directory, "virtual_stages.json", "calculate_virtual_stages", "num_virtual_stages",
          [](const Json& in) {
            const Json& round = in.at("round_to_pp_multiple");
            return calculate_virtual_stages(in.at("num_layers"),
                                            optional_int(in.at("layers_per_stage")),
                                            in.at("pp_size"), in.at("is_single_stage_schedule"),
                                            round.is_null() ? Rounding::kNone
                                            : round == "up" ? Rounding::kUp
                                                            : Rounding::kDown)
                .num_stages;
          });
  compare(directory, "hf_fqns.json", "generate_hf_model_fqn_per_model_part",
          "module_fqns_per_stage", [](const Json& in) {
            return generate_hf_model_fqn_per_model_part(in.at("num_stages"), in.at("num_layers"),
                                                        stage_options(in));
          });
  compare(
      directory, "nxd_partition.json", "create_partitions", "pipeline_cuts", [](const Json& in) {
        const int stages =
            in.at("pipeline_parallel_size").get<int>() * in.at("virtual_pipeline_size").get<int>();
        return create_partitions(stages, layer_names(in));
      });
  std::cout << compared << " answers compared, " << wrong << " differ\n";
  return wrong == 0 ? 0 : 1;
}
