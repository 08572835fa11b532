#include "split_output.h"

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace sluice {
namespace {

// {"layers.3", "layers.4", "norm"} -> "layers.3-4, norm".
std::string condensed(const std::vector<std::string>& names) {
  const auto number_at = [](const std::string& name) {
    const std::size_t digit = name.find_last_not_of("0123456789");
    return digit == std::string::npos ? 0 : digit + 1;
  };
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < names.size();) {
    const std::size_t at = number_at(names[i]);
    std::size_t end = i + 1;
    while (end < names.size() && at > 0 && at < names[i].size() && number_at(names[end]) == at &&
           at < names[end].size() && names[end].compare(0, at, names[i], 0, at) == 0) {
      ++end;
    }
    parts.push_back(names[i] + (end - i > 1 ? "-" + names[end - 1].substr(at) : ""));
    i = end;
  }
  return join(parts, ", ");
}

std::vector<std::string> names_of_cuts(const Partition& partition) {
  std::vector<std::string> cuts;
  for (std::size_t s = 0; s + 1 < partition.stages.size(); ++s) {
    cuts.push_back(partition.stages[s].modules.back());
  }
  return cuts;
}

}  // namespace

std::string split_json(const SplitResult& result) {
  using Json = nlohmann::ordered_json;
  const Partition& partition = result.partition;
  const bool has_model = result.model.num_parameters() > 0;
  Json object;
  object["num_stages"] = partition.num_stages();
  object["stages_per_rank"] = partition.stages_per_rank();
  object["stage_to_rank"] = partition.stage_map.ranks();
  object["split_points"] = partition.split_points;
  if (result.convention == "neuronx") object["cuts"] = names_of_cuts(partition);
  Json& stages = object["stages"] = Json::array();
  for (const StageContent& content : partition.stages) {
    Json& stage = stages.emplace_back();
    stage["stage"] = content.stage;
    stage["rank"] = content.rank;
    stage["first_layer"] = content.first_layer;
    stage["num_layers"] = content.num_layers;
    stage["modules"] = content.modules;
    if (has_model) {
      stage["parameters"] = parameter_names(result.model, content);
      stage["num_parameters"] = content.num_parameters;
    }
    if (!result.shapes.empty()) {
      stage["input_shape"] = result.shapes[content.stage].input;
      stage["output_shape"] = result.shapes[content.stage].output;
    }
  }
  if (has_model) {
    Json& groups = object["tie_groups"] = Json::array();
    for (const TieGroup& group : partition.tie_groups) {
      groups.push_back({{"name", group.name}, {"stages", group.stages}});
    }
  }
  return object.dump() + "\n";
}

std::string split_text(const SplitResult& result) {
  const Partition& partition = result.partition;
  const bool has_model = result.model.num_parameters() > 0;
  std::string text = counted(result.model.num_blocks(), "layer") + ", " +
                     counted(partition.num_stages(), "stage") + ", " +
                     counted(partition.num_ranks(), "rank") + " (" + result.convention + ")\n";
  std::vector<TextTable::Column> columns = {
      {"stage", Align::kRight}, {"rank", Align::kRight}, {"layers", Align::kRight}};
  if (has_model) columns.push_back({"parameters", Align::kRight});
  if (!result.shapes.empty()) {
    columns.push_back({"input"});
    columns.push_back({"output"});
  }
  columns.push_back({"modules"});
  TextTable table(std::move(columns));
  for (const StageContent& stage : partition.stages) {
    std::vector<std::string> row = {std::to_string(stage.stage), std::to_string(stage.rank),
                                    std::to_string(stage.num_layers)};
    if (has_model) row.push_back(with_commas(stage.num_parameters));
    if (!result.shapes.empty()) {
      row.push_back(shape_text(result.shapes[stage.stage].input));
      row.push_back(shape_text(result.shapes[stage.stage].output));
    }
    row.push_back(condensed(stage.modules));
    table.add_row(std::move(row));
  }
  text += table.to_string();
  for (const TieGroup& group : partition.tie_groups) {
    std::vector<std::string> stages;
    for (const int stage : group.stages) stages.push_back(std::to_string(stage));
    text += "tied: " + group.name + " on stages " + join(stages, ", ") + "\n";
  }
  return text + result.note;
}

}  // namespace sluice
