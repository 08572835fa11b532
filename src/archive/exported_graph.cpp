#include "archive/exported_graph.h"

#include <algorithm>
#include <utility>

#include "archive/graph_facts.h"
#include "archive/graph_json.h"
#include "archive/json_fields.h"
#include "archive/tensor_table.h"
#include "archive/zip_file.h"
#include "base/format.h"
#include "base/text.h"

namespace sluice::detail {
namespace {

constexpr std::size_t kMaxWordBytes = 100;
constexpr std::string_view kModels = "models/", kJson = ".json";

// Returns the folder of all entries, with a slash.
std::string root_of(const ZipFile& zip) {
  for (const ZipEntry& entry : zip.entries()) {
    const std::size_t slash = entry.name.find('/');
    if (slash != std::string::npos && entry.name.substr(slash + 1) == "archive_format")
      return entry.name.substr(0, slash + 1);
  }
  const bool is_older = zip.find("serialized_exported_program.json") != nullptr;
  const bool is_pickle = std::ranges::any_of(
      zip.entries(), [](const ZipEntry& entry) { return entry.name.ends_with("/data.pkl"); });
  refuse_archive(
      zip.name(),
      is_older ? "the file is an archive of an older torch"
      : is_pickle
          ? "the file is a pickle of torch.save, not an archive of torch.export.save"
          : "the file is not an archive of torch.export.save: it has no entry archive_format",
      "export the model with the tool that `sluice graph tool` prints");
}

std::string word_of(const ZipFile& zip, const std::string& name) {
  const ZipEntry* entry = zip.find(name);
  if (!entry) refuse_archive(zip.name(), "the entry '" + name + "' is missing");
  return zip.read(*entry, kMaxWordBytes);
}

void check_format(const ZipFile& zip, const std::string& root) {
  if (const std::string format = word_of(zip, root + "archive_format"); format != "pt2") {
    refuse_archive(zip.name(), formatted("the archive has the format '{}', not 'pt2'", format),
                   "export the model with the tool that `sluice graph tool` prints");
  }
  if (const std::string version = word_of(zip, root + "archive_version"); version != "0") {
    refuse_archive(zip.name(), formatted("the archive has the version '{}', not '0'", version),
                   "export the model again with torch 2.7 to 2.13");
  }
  if (const std::string order = word_of(zip, root + "byteorder"); order != "little") {
    refuse_archive(zip.name(),
                   formatted("the archive has the byte order '{}', not 'little'", order),
                   "export the model on a little-endian machine");
  }
}

std::string model_name(const ZipFile& zip, const std::string& root) {
  std::vector<std::string> names;
  const std::string begin = root + std::string(kModels);
  for (const ZipEntry& entry : zip.entries()) {
    if (entry.name.starts_with(begin) && entry.name.ends_with(kJson) &&
        entry.name.size() > begin.size() + kJson.size())
      names.push_back(
          entry.name.substr(begin.size(), entry.name.size() - begin.size() - kJson.size()));
  }
  if (names.size() != 1) {
    refuse_archive(zip.name(), formatted("the archive has {} models, not one", names.size()),
                   "export each model into its own file");
  }
  return names[0];
}

std::string place_of(const ZipFile& zip, const ZipEntry& entry) {
  return zip.name() + ", entry '" + entry.name + "'";
}

GraphProgram read_program(const ZipFile& zip, const ZipEntry& entry) {
  return parse_graph_program(zip.read(entry, kMaxGraphJsonBytes), place_of(zip, entry));
}

}  // namespace

const GraphArgument* GraphNode::argument(std::string_view name) const {
  const auto found =
      std::ranges::find(arguments, name, &std::pair<std::string, GraphArgument>::first);
  return found == arguments.end() ? nullptr : &found->second;
}

const std::string& GraphNode::module_path() const {
  static const std::string kModel;
  return modules.empty() ? kModel : modules.back().path;
}

const GraphTensor* ExportedGraph::tensor(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &GraphTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

ExportedGraph read_exported_graph(const ZipFile& zip) {
  const std::string root = root_of(zip);
  check_format(zip, root);
  const std::string model = model_name(zip, root);
  ExportedGraph graph;
  graph.path = zip.name();
  GraphProgram program =
      read_program(zip, *zip.find(root + std::string(kModels) + model + std::string(kJson)));
  graph.torch_version = std::move(program.torch_version);
  graph.training = std::move(program.module);
  if (const ZipEntry* entry = zip.find(root + "extra/evaluation.json"))
    graph.evaluation = read_program(zip, *entry).module;
  graph.tensors = read_tensor_tables(zip, root, model, graph.training,
                                     graph.evaluation ? &*graph.evaluation : nullptr);
  if (const ZipEntry* entry = zip.find(root + "extra/sluice.json")) {
    const std::string where = place_of(zip, *entry);
    graph.facts = parse_graph_facts(zip.read(*entry, kMaxGraphJsonBytes), where);
    apply_graph_facts(graph.facts, where, graph);
  }
  return graph;
}

ExportedGraph read_exported_graph(const std::string& path) {
  return read_exported_graph(ZipFile::open(path));
}

bool is_graph_path(const std::string& path) { return path.ends_with(".pt2"); }

}  // namespace sluice::detail
