#include "archive/graph_facts.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "archive/graph_json.h"
#include "archive/json_fields.h"
#include "base/format.h"
#include "base/strict_json.h"

namespace sluice::detail {
namespace {

std::string text_or_none(const JsonField& facts, std::string_view key) {
  const Json* found = facts.find(key);
  return found ? JsonField(*found, facts.where(), key).text() : std::string();
}

bool boolean_or_false(const JsonField& facts, std::string_view key) {
  const Json* found = facts.find(key);
  return found && JsonField(*found, facts.where(), key).boolean();
}

std::vector<std::string> texts(const JsonField& facts, std::string_view key) {
  std::vector<std::string> made;
  if (const Json* found = facts.find(key)) {
    for (const Json& each : JsonField(*found, facts.where(), key).list())
      made.push_back(JsonField(each, facts.where(), key).text());
  }
  return made;
}

void name_results(GraphModule& module, const std::vector<std::string>& names,
                  const std::string& where) {
  std::vector<GraphOutput*> results;
  for (GraphOutput& output : module.outputs) {
    if (output.kind == GraphOutput::Kind::kResult) results.push_back(&output);
  }
  if (names.size() != results.size()) {
    refuse_archive(where, formatted("it names {} outputs, but the graph has {}", names.size(),
                                    results.size()));
  }
  std::set<std::string_view> taken;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!taken.insert(names[i]).second)
      refuse_archive(where, formatted("it names two outputs '{}'", names[i]));
    results[i]->name = names[i];
  }
}

}  // namespace

GraphFacts parse_graph_facts(std::string_view text, const std::string& where) {
  const Json json = parse_strict_json(text, where, KeyOrder::kAsWritten, kMaxGraphJsonValues);
  const JsonField root(json, where);
  if (const std::int64_t format = root.at("format").integer(); format != kKnownFactsFormat) {
    refuse_archive(where, formatted("it has the format {}, not {}", format, kKnownFactsFormat),
                   "export the model again with the tool that `sluice graph tool` prints");
  }
  GraphFacts facts{.present = true,
                   .tool = text_or_none(root, "tool"),
                   .torch = text_or_none(root, "torch"),
                   .transformers = text_or_none(root, "transformers"),
                   .class_name = text_or_none(root, "class")};
  for (const Json& pair : root.at("ties").list()) {
    const Json::List& names = JsonField(pair, where, "ties").list();
    if (names.size() != 2) root.refuse("a tie does not have two names");
    facts.ties.emplace_back(JsonField(names[0], where).text(), JsonField(names[1], where).text());
  }
  if (const Json* stored = root.find("stored")) {
    for (const Json& pair : JsonField(*stored, where, "stored").list()) {
      const Json::List& names = JsonField(pair, where, "stored").list();
      if (names.size() != 2) root.refuse("a stored name is not a pair of names");
      facts.stored.emplace_back(JsonField(names[0], where).text(),
                                JsonField(names[1], where).text());
    }
  }
  for (const Json& size : root.at("sizes").list()) {
    const JsonField fields(size, where, "sizes");
    facts.sizes.push_back({.name = fields.at("name").text(),
                           .symbol = fields.at("symbol").text(),
                           .example = fields.at("example").integer()});
  }
  facts.outputs = texts(root, "outputs");
  if (const Json* config = root.find("config"))
    facts.config = config->is_string() ? config->text() : config->dump(2) + "\n";
  facts.dtype = text_or_none(root, "dtype");
  if (const Json* loss = root.find("loss")) {
    const JsonField fields(*loss, where, "loss");
    facts.loss_output = fields.at("output").text();
    facts.loss_count = text_or_none(fields, "count");
    facts.loss_is_sum = boolean_or_false(fields, "sum");
  }
  facts.has_weights = boolean_or_false(root, "weights");
  facts.checked = text_or_none(root, "checked");
  facts.notes = texts(root, "notes");
  return facts;
}

void apply_graph_facts(const GraphFacts& facts, const std::string& where, ExportedGraph& graph) {
  name_results(graph.training, facts.outputs, where);
  if (graph.evaluation) name_results(*graph.evaluation, facts.outputs, where);
  for (const std::string* name : {&facts.loss_output, &facts.loss_count}) {
    if (!name->empty() && std::ranges::find(facts.outputs, *name) == facts.outputs.end())
      refuse_archive(where, formatted("its loss is the output '{}', which does not exist", *name));
  }
  std::unordered_map<std::string_view, const GraphTensor*> tensors;
  for (const GraphTensor& tensor : graph.tensors) tensors.emplace(tensor.name, &tensor);
  for (const auto& [name, first] : facts.ties) {
    for (const std::string& each : {name, first}) {
      if (!tensors.contains(each))
        refuse_archive(where, formatted("it ties '{}', which the archive does not have", each));
    }
    const GraphTensor &tied = *tensors[name], &to = *tensors[first];
    if (tied.sizes != to.sizes || tied.dtype != to.dtype)
      refuse_archive(
          where, formatted("it ties '{}' and '{}', which differ in sizes or dtype", name, first));
  }
  std::set<std::string> symbols;
  for (const GraphInput& input : graph.training.inputs) {
    if (input.kind != GraphInput::Kind::kBatch) continue;
    const GraphValue& value = graph.training.values[static_cast<std::size_t>(input.value)];
    for (const SizeExpression& size : value.sizes) size.add_symbols(symbols);
    if (value.number) value.number->add_symbols(symbols);
  }
  for (const GraphFacts::Size& size : facts.sizes) {
    if (!symbols.contains(size.symbol)) {
      refuse_archive(
          where, formatted("its size '{}' is '{}', which no input has", size.name, size.symbol));
    }
  }
  if (!facts.has_weights) return;
  for (const GraphTensor& tensor : graph.tensors) {
    const bool is_empty = std::ranges::find(tensor.sizes, 0) != tensor.sizes.end();
    if (tensor.record.empty() && !is_empty)
      refuse_archive(
          where, "it says that weights are in the archive, but '" + tensor.name + "' has no bytes");
  }
}

}  // namespace sluice::detail
