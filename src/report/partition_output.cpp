#include "report/partition_output.h"

#include "base/places.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr std::int64_t kBytes = 4;  // float32

// A model described only by its number of layers has no parameters.
bool has_parameters(const ModelSpec& model) { return !model.family.empty(); }

// Returns "layers.3-4, norm" for {"layers.3", "layers.4", "norm"}.
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

bool cuts_after(const Partition& partition) { return partition.convention == "neuronx"; }

std::vector<std::string> names_of_cuts(const Partition& partition) {
  std::vector<std::string> cuts;
  for (std::size_t s = 0; s + 1 < partition.stages.size(); ++s) {
    cuts.push_back(partition.stages[s].modules.back());
  }
  return cuts;
}

std::string cuts_text(const Partition& partition) {
  if (partition.num_stages() == 1) return {};
  return cuts_after(partition) ? "cut after " + join(names_of_cuts(partition), ", ")
                               : "cut before " + join(partition.split_points, ", ");
}

std::string weights_text(const Partition& partition) {
  if (!partition.weights || (partition.weights->first == 0 && partition.weights->last == 0)) {
    return {};
  }
  return "counted with the embedding as " + counted(partition.weights->first, "layer") +
         ", norm and head as " + counted(partition.weights->last, "layer");
}

std::string tie_text(const TieGroup& group) {
  return "tied: " + group.name + " on " + stages_text(group.stages);
}

}  // namespace

Json partition_json(const ModelSpec& model, const Partition& partition,
                    const std::vector<StageShape>& shapes) {
  Json object;
  object["num_stages"] = partition.num_stages();
  object["stages_per_rank"] = partition.stages_per_rank();
  object["stage_to_rank"] = partition.stage_map.ranks();
  object["split_points"] = partition.split_points;
  if (model.hidden_size() > 0) object["hidden_size"] = model.hidden_size();
  if (model.vocab_size > 0) object["vocab_size"] = model.vocab_size;
  if (cuts_after(partition)) object["cuts"] = names_of_cuts(partition);
  if (partition.weights) {
    object["first_stage_weight"] = partition.weights->first;
    object["last_stage_weight"] = partition.weights->last;
  }
  Json& stages = object["stages"] = Json::array();
  for (const StageContent& content : partition.stages) {
    Json& stage = stages.push_back({});
    stage["stage"] = content.stage;
    stage["rank"] = content.rank;
    stage["first_layer"] = content.first_layer;
    stage["num_layers"] = content.num_layers;
    stage["modules"] = content.modules;
    if (has_parameters(model)) {
      stage["parameters"] = parameter_names(model, content);
      stage["num_parameters"] = content.num_parameters;
      stage["bytes"] = kBytes * content.num_parameters;
    }
    if (!shapes.empty()) {
      stage["input_shape"] = shapes[content.stage].input;
      stage["output_shape"] = shapes[content.stage].output;
      stage["input_dtype"] = shapes[content.stage].input_dtype;
      stage["output_dtype"] = shapes[content.stage].output_dtype;
    }
  }
  if (has_parameters(model)) {
    Json& groups = object["tie_groups"] = Json::array();
    for (const TieGroup& group : partition.tie_groups) {
      groups.push_back({{"name", group.name}, {"stages", group.stages}});
    }
  }
  return object;
}

std::string partition_text(const ModelSpec& model, const Partition& partition,
                           const std::vector<StageShape>& shapes, int width,
                           std::string_view indent) {
  std::vector<TextTable::Column> columns = {
      {"stage", Align::kRight}, {"rank", Align::kRight}, {"layers", Align::kRight}};
  if (has_parameters(model)) {
    columns.push_back({"parameters", Align::kRight});
    columns.push_back({"bytes", Align::kRight});
  }
  if (!shapes.empty()) {
    columns.push_back({"input"});
    columns.push_back({"output"});
  }
  columns.push_back({"modules"});
  TextTable table(std::move(columns));
  for (const StageContent& stage : partition.stages) {
    std::vector<std::string> row = {std::to_string(stage.stage), std::to_string(stage.rank),
                                    std::to_string(stage.num_layers)};
    if (has_parameters(model)) {
      row.push_back(with_commas(stage.num_parameters));
      row.push_back(human_bytes(kBytes * stage.num_parameters));
    }
    if (!shapes.empty()) {
      row.push_back(shape_text(shapes[stage.stage].input));
      row.push_back(shape_text(shapes[stage.stage].output));
    }
    row.push_back(condensed(stage.modules));
    table.add_row(std::move(row));
  }
  std::string text = table.to_string(indent, width);
  const auto add = [&](const std::string& line) {
    if (!line.empty()) text += wrapped(line, width, indent);
  };
  add(cuts_text(partition));
  add(weights_text(partition));
  for (const TieGroup& group : partition.tie_groups) add(tie_text(group));
  return text;
}

}  // namespace sluice
