#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/format.h"
#include "base/hub_id.h"
#include "base/json.h"
#include "base/print.h"
#include "base/printable.h"
#include "base/text.h"
#include "checkpoint/checkpoint_diff.h"
#include "checkpoint/checkpoint_export.h"
#include "command/weights.h"
#include "command_line.h"
#include "commands.h"
#include "kind/adapter_files.h"
#include "sluice/checkpoint.h"
#include "sluice/error.h"
#include "sluice/lora.h"

namespace sluice {
namespace {

struct CheckpointArguments {
  std::string first, second;
  std::string base;
  bool json = false, merge = false;
};

int reading_threads() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 16);
}

int list(const CheckpointArguments& arguments) {
  const std::string& folder = arguments.first;
  std::error_code ignored;
  if (!std::filesystem::exists(folder, ignored)) {
    throw Error(ErrorKind::kCheckpoint, {.what = "there is no such folder",
                                         .where = folder,
                                         .remedy = "name the run's checkpoint.folder"});
  }
  const std::vector<ListedCheckpoint> listed = list_checkpoints(folder, reading_threads());
  if (arguments.json) {
    Json rows = Json::array();
    for (const ListedCheckpoint& row : listed)
      rows.push_back(
          {{"step", row.step}, {"path", row.path}, {"ok", row.ok}, {"reason", row.reason}});
    print_exact(rows.dump() + "\n");
    return 0;
  }
  if (listed.empty()) {
    print("no checkpoints in " + printable(folder) + "\n");
    return 0;
  }
  TextTable table({{"step", Align::kRight}, {"ok"}, {"path"}, {"reason"}});
  for (const ListedCheckpoint& row : listed)
    table.add_row({std::to_string(row.step), row.ok ? "yes" : "no", printable(row.path),
                   printable(row.reason)});
  print(table.to_string());
  return 0;
}

int verify(const CheckpointArguments& arguments) {
  const Checkpoint checkpoint(arguments.first);
  checkpoint.verify(reading_threads());
  const Manifest& manifest = checkpoint.manifest();
  std::int64_t num_tensors = 0;
  std::uint64_t bytes = 0;
  for (const auto* tensors : {&manifest.weights, &manifest.optimizer, &manifest.extra_tensors}) {
    num_tensors += static_cast<std::int64_t>(tensors->size());
    for (const SavedTensor& tensor : *tensors) bytes += tensor.bytes;
  }
  print(formatted("{}: ok: step {}, {}, {} bytes\n", printable(checkpoint.path()), manifest.step,
                  counted(num_tensors, "tensor"), bytes));
  return 0;
}

const char* kind_name(SavedKind kind) {
  switch (kind) {
    case SavedKind::kWeights:
      return "weights";
    case SavedKind::kOptimizer:
      return "optimizer";
    case SavedKind::kExtra:
      return "extra";
  }
  return "";
}

enum class Difference { kOnlyInA, kOnlyInB, kForm, kContent };

Difference difference_of(const TensorDifference& tensor) {
  if (tensor.b.empty()) return Difference::kOnlyInA;
  if (tensor.a.empty()) return Difference::kOnlyInB;
  return tensor.a == tensor.b ? Difference::kContent : Difference::kForm;
}

Json to_json(const std::vector<ValueDifference>& differences) {
  Json object = Json::object();
  for (const ValueDifference& difference : differences)
    object[difference.name] = Json::List{difference.a, difference.b};
  return object;
}

Json to_json(const CheckpointDiff& diff) {
  Json object;
  object["equal"] = diff.equal();
  object["values"] = to_json(diff.values);
  object["settings"] = to_json(diff.settings);
  object["extra"] = to_json(diff.extra);
  object["ties"] = to_json(diff.ties);
  Json& tensors = object["tensors"];
  for (const char* list : {"only_in_a", "only_in_b", "other_form", "other_content"})
    tensors[list] = Json::array();
  for (const TensorDifference& tensor : diff.tensors) {
    Json entry = {{"kind", kind_name(tensor.kind)}, {"name", tensor.name}};
    switch (difference_of(tensor)) {
      case Difference::kOnlyInA:
        entry["form"] = tensor.a;
        tensors["only_in_a"].push_back(entry);
        break;
      case Difference::kOnlyInB:
        entry["form"] = tensor.b;
        tensors["only_in_b"].push_back(entry);
        break;
      case Difference::kForm:
        entry["a"] = tensor.a;
        entry["b"] = tensor.b;
        tensors["other_form"].push_back(entry);
        break;
      case Difference::kContent: {
        const auto largest = tensor.largest_difference;
        entry["largest_difference"] =
            largest && std::isfinite(*largest) ? Json(*largest) : Json(nullptr);
        tensors["other_content"].push_back(entry);
        break;
      }
    }
  }
  return object;
}

void print_values(const std::string& group, const std::vector<ValueDifference>& differences) {
  for (const ValueDifference& difference : differences) {
    print(formatted("{}: {} | {}\n", printable(group + difference.name),
                    printable(difference.a.value_or("(none)")),
                    printable(difference.b.value_or("(none)"))));
  }
}

std::string said_of(const TensorDifference& tensor) {
  switch (difference_of(tensor)) {
    case Difference::kOnlyInA:
      return "only in A: " + tensor.a;
    case Difference::kOnlyInB:
      return "only in B: " + tensor.b;
    case Difference::kForm:
      return tensor.a + " | " + tensor.b;
    case Difference::kContent:
      break;
  }
  if (!tensor.largest_difference) return "other content";
  if (!std::isfinite(*tensor.largest_difference)) return "finite in one of them only";
  return "differs by at most " + shortest(*tensor.largest_difference);
}

int diff(const CheckpointArguments& arguments) {
  const CheckpointDiff diff = diff_checkpoints(arguments.first, arguments.second);
  if (arguments.json) {
    print_exact(to_json(diff).dump() + "\n");
    return 0;
  }
  if (diff.equal()) {
    print("equal\n");
    return 0;
  }
  print_values("", diff.values);
  print_values("settings ", diff.settings);
  print_values("extra ", diff.extra);
  print_values("tie ", diff.ties);
  for (const TensorDifference& tensor : diff.tensors) {
    print(
        formatted("{} {}: {}\n", kind_name(tensor.kind), printable(tensor.name), said_of(tensor)));
  }
  return 0;
}

std::string base_of(const CheckpointArguments& arguments) {
  if (!arguments.base.empty()) return arguments.base;
  std::string base = base_of_adapter(arguments.first);
  std::error_code ignored;
  if (std::filesystem::exists(base, ignored)) return base;
  const std::string download = download_advice(base);
  throw Error(
      ErrorKind::kInput,
      {.what = base.empty() ? "the adapter names no base model"
                            : "the adapter's base model, '" + base + "', does not exist",
       .where = arguments.first,
       .remedy = (download.empty() ? "" : download + "; ") + "give its directory: --base DIR"});
}

ExportedDirectory export_with_base(const CheckpointArguments& arguments) {
  if (!is_adapter_directory(arguments.first)) {
    throw Error(ErrorKind::kUsage, {.what = "there is no adapter to merge",
                                    .where = arguments.first,
                                    .remedy = "leave --merge out: the weights are whole"});
  }
  const std::string base = base_of(arguments);
  require_base_of_run(arguments.first, base);
  return export_merged(arguments.first, base, arguments.second);
}

int export_to(const CheckpointArguments& arguments) {
  const ExportedDirectory exported =
      arguments.merge ? export_with_base(arguments)
                      : export_checkpoint(Checkpoint(arguments.first), arguments.second);
  const bool is_adapter = !arguments.merge && is_adapter_directory(arguments.first);
  print(formatted("{}: {}, {} bytes{}\n", printable(arguments.second),
                  counted(exported.num_files, "file"), exported.bytes,
                  exported.has_config ? ""
                  : is_adapter        ? "; the adapter alone, in PEFT's form"
                                      : "; weights alone: the checkpoint has no config.json"));
  return 0;
}

}  // namespace

Command checkpoint_command() {
  const auto a = std::make_shared<CheckpointArguments>();
  const auto first = [&](const char* name, const char* help) {
    return required({name, &a->first, help});
  };
  const auto second = [&](const char* name, const char* help) {
    return required({name, &a->second, help});
  };
  const Option json = {"--json", &a->json, "as JSON"};
  Command command{"checkpoint", "Lists, verifies, compares and exports checkpoints."};
  command.commands = {
      {.name = "list",
       .help = "Lists the checkpoints of a folder by step, and verifies each.",
       .options = {first("FOLDER", "as checkpoint.folder"), json},
       .run = [a] { return list(*a); }},
      {.name = "verify",
       .help = "Compares every byte of a checkpoint with its manifest.",
       .options = {first("PATH", "a checkpoint")},
       .run = [a] { return verify(*a); }},
      {.name = "diff",
       .help = "Shows what differs between two checkpoints.",
       .options = {first("A", "a checkpoint, or a Hugging Face directory"), second("B", "another"),
                   json},
       .run = [a] { return diff(*a); }},
      {.name = "export",
       .help = "Writes a checkpoint's weights as a Hugging Face directory.",
       .options = {first("PATH", "a checkpoint"),
                   second("OUT", "a directory that is new or empty"),
                   {"--merge", &a->merge,
                    "for an adapter: write its base model with the adapter merged"},
                   {"--base", &a->base,
                    "with --merge: the base model; default: the one that the adapter names"}},
       .rules = {{.given = {"--base"},
                  .missing = {"--merge"},
                  .what = "--base needs --merge",
                  .remedy = "add --merge, or leave --base out"}},
       .run = [a] { return export_to(*a); }}};
  return command;
}

}  // namespace sluice
