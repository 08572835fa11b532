#include "command/auto_settings.h"

#include <functional>
#include <map>

#include "base/format.h"
#include "base/text.h"
#include "command/inputs.h"
#include "config/config_words.h"
#include "config/key_table.h"

namespace sluice {
namespace {

using Choice = std::function<std::string(const AutoParts&)>;

Choice of_data(const std::string& key) {
  return [key](const AutoParts& of) {
    const std::map<std::string, std::string> choices = of.data.choices();
    const auto found = choices.find(key);
    return found == choices.end() ? std::string() : found->second;
  };
}

std::string placement_of(const AutoParts& of) {
  const StageMap& stages = of.plan.schedule.stage_map;
  const int ranks = stages.num_ranks();
  bool is_loop = true, is_v = true;
  std::vector<std::string> each;
  for (int stage = 0; stage < stages.num_stages(); ++stage) {
    const int rank = stages.rank_of(stage), place = stage % ranks;
    const bool goes_back = stage / ranks % 2 == 1;
    is_loop = is_loop && rank == place;
    is_v = is_v && rank == (goes_back ? ranks - 1 - place : place);
    each.push_back(std::to_string(rank));
  }
  return is_loop ? "loop" : is_v ? "v" : join(each, ",");
}

const std::map<std::string, Choice>& choices() {
  static const std::map<std::string, Choice> table = {
      {"data.format", of_data("data.format")},
      {"data.tokenizer", of_data("data.tokenizer")},
      {"data.chat_template", of_data("data.chat_template")},
      {"training.device",
       [](const AutoParts& of) { return of.ranks.device.is_cpu() ? "cpu" : "cuda"; }},
      {"training.fused",
       [](const AutoParts& of) {
         return uses_fused(of.config, of.plan.model) ? "fused operators" : "LibTorch's operators";
       }},
      {"training.loss_chunks",
       [](const AutoParts& of) {
         return of.plan.model.layers.back().loss_by_blocks ? "on" : "off";
       }},
      {"parallelism.pipeline_parallel_schedule",
       [](const AutoParts& of) {
         return formatted("{} with {} a rank", of.plan.schedule.name,
                          counted(of.plan.partition.stages_per_rank(), "stage"));
       }},
      {"parallelism.stage_to_rank", placement_of},
      {"parallelism.transport",
       [](const AutoParts& of) {
         return detail::word_of(detail::words_of(of.ranks.transport), of.ranks.transport);
       }},
      {"checkpoint.resume",
       [](const AutoParts& of) {
         return of.resume.checkpoint ? of.resume.checkpoint->path()
                                     : "no checkpoint in " + of.config.checkpoint.folder;
       }},
  };
  return table;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> auto_settings(const AutoParts& of) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (const detail::Key& key : detail::key_table()) {
    const auto choice = choices().find(key.full_name());
    if (choice == choices().end() || key.get(of.config) != detail::Value(std::string("auto")))
      continue;
    if (std::string became = choice->second(of); !became.empty())
      settings.emplace_back(key.full_name(), std::move(became));
  }
  return settings;
}

std::string auto_text(const AutoParts& of) {
  std::string text;
  for (const auto& [key, became] : auto_settings(of)) text += formatted("  {} = {}\n", key, became);
  return text.empty() ? text : "auto:\n" + text;
}

}  // namespace sluice
