#include "sluice/checkpoint.h"

#include <algorithm>

#include "base/format.h"
#include "base/json.h"
#include "base/text.h"
#include "checkpoint/manifest.h"
#include "checkpoint/manifest_json.h"
#include "checkpoint/manifest_rules.h"
#include "checkpoint/manifest_seal.h"
#include "kind/adapter_files.h"
#include "sluice/error.h"

namespace sluice {
namespace {

std::string json_text(std::string_view text) {
  if (std::optional<std::string> quoted = Json(text).dump_valid()) return std::move(*quoted);
  throw Error(ErrorKind::kUsage, {.what = "a text of the checkpoint is not UTF-8",
                                  .where = "'" + std::string(text) + "'",
                                  .remedy = "save bytes as a tensor"});
}

std::string block(std::string_view key, char open, char close,
                  const std::vector<std::string>& lines) {
  std::string text = ",\n  " + json_text(key) + ": " + open;
  for (std::size_t i = 0; i < lines.size(); ++i) text += (i == 0 ? "\n    " : ",\n    ") + lines[i];
  return text + (lines.empty() ? "" : "\n  ") + close;
}

std::string text_map(std::string_view key, const std::map<std::string, std::string>& map) {
  std::vector<std::string> lines;
  lines.reserve(map.size());
  for (const auto& [name, value] : map) lines.push_back(json_text(name) + ": " + json_text(value));
  return block(key, '{', '}', lines);
}

std::string fingerprints(const std::map<std::string, Fingerprint>& map) {
  std::vector<std::string> lines;
  lines.reserve(map.size());
  for (const auto& [name, print] : map) {
    lines.push_back(formatted("{}: {{\"bytes\": {}, \"hash\": {}}}", json_text(name), print.bytes,
                              json_text(print.hash)));
  }
  return block("fingerprints", '{', '}', lines);
}

std::string tensors(std::string_view key, const std::vector<SavedTensor>& list) {
  std::vector<std::string> lines;
  lines.reserve(list.size());
  for (const SavedTensor& tensor : list) {
    lines.push_back(
        formatted("{{\"name\": {}, \"dtype\": {}, \"shape\": {}, \"file\": {}, \"offset\": {}, "
                  "\"bytes\": {}, \"hash\": {}}}",
                  json_text(tensor.name), json_text(tensor.dtype), shape_text(tensor.shape),
                  json_text(tensor.file), tensor.offset, tensor.bytes, json_text(tensor.hash)));
  }
  return block(key, '[', ']', lines);
}

std::string files(const std::vector<SavedFile>& list) {
  std::vector<std::string> lines;
  lines.reserve(list.size());
  for (const SavedFile& file : list) {
    lines.push_back(formatted("{{\"file\": {}, \"bytes\": {}, \"hash\": {}}}", json_text(file.file),
                              file.bytes, json_text(file.hash)));
  }
  return block("files", '[', ']', lines);
}

std::string line(std::string_view key, const std::string& value) {
  return ",\n  " + json_text(key) + ": " + value;
}

}  // namespace

bool holds_adapter(const Manifest& manifest) {
  return std::any_of(manifest.files.begin(), manifest.files.end(),
                     [](const SavedFile& file) { return file.file == kAdapterConfigFile; });
}

Manifest parse_manifest(std::string_view text, const std::string& file) {
  if (text.size() > kMaxManifestBytes)
    refuse_manifest(file, "it is larger than " + human_bytes(kMaxManifestBytes));
  unsealed(text, file);
  Manifest manifest = read_manifest_json(text, file);
  if (const std::optional<ErrorText> broken = broken_rule(manifest))
    refuse_manifest(file, broken->what, broken->where);
  return manifest;
}

std::string to_json(const Manifest& manifest) {
  // Check now that the written manifest can be parsed.
  if (const std::optional<ErrorText> broken = broken_rule(manifest))
    throw Error(ErrorKind::kInternal, {.what = broken->what, .where = broken->where});
  std::string text = "{\n  \"format\": " + json_text(kManifestFormat);
  text += line("version", std::to_string(kManifestVersion));
  text += line("sluice", json_text(manifest.version));
  text += line("run", json_text(manifest.run));
  text += line("generation", std::to_string(manifest.generation));
  text += line("step", std::to_string(manifest.step));
  text += line("data", formatted("{{\"sequence\": {}}}", manifest.sequence));
  text += line("seed", std::to_string(manifest.seed));
  text += fingerprints(manifest.fingerprints);
  text += text_map("settings", manifest.settings);
  text += text_map("ties", manifest.ties);
  text += text_map("extra", manifest.extra);
  text += tensors("weights", manifest.weights);
  text += tensors("optimizer", manifest.optimizer);
  text += tensors("extra_tensors", manifest.extra_tensors);
  text += files(manifest.files);
  text = seal(std::move(text));
  if (text.size() <= kMaxManifestBytes) return text;
  throw Error(ErrorKind::kCheckpoint,
              {.what = "the manifest has " + human_bytes(static_cast<std::int64_t>(text.size())) +
                       ", but at most " + human_bytes(kMaxManifestBytes) + " can be read back",
               .where = kManifestFile,
               .remedy = "save long texts as tensors of kByte"});
}

}  // namespace sluice
