#include "command/resume_differences.h"

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/text.h"
#include "config/epochs.h"
#include "config/key_table.h"
#include "sluice/options.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20;

std::string size_text(std::uint64_t bytes) {
  return formatted("{} bytes", with_commas(static_cast<std::int64_t>(bytes)));
}

const Fingerprint* find(const Manifest& manifest, const std::string& name) {
  const auto found = manifest.fingerprints.find(name);
  return found == manifest.fingerprints.end() ? nullptr : &found->second;
}

std::string shown(const Json& object, const std::string& key) {
  return object.contains(key) ? object.at(key).dump() : "not given";
}

std::string config_difference(const std::string& checkpoint, const std::string& own_config) {
  const std::string file = checkpoint + "/config.json";
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return {};
  const Json theirs = model_of(read_text(file, kMaxConfigBytes, ErrorKind::kCheckpoint));
  const Json own = model_of(own_config);
  Json all = theirs;
  all.update(own);
  for (const auto& [key, value] : all.members()) {
    const std::string was = shown(theirs, key), is = shown(own, key);
    if (was != is) return formatted("its '{}' is {}, not {}", key, was, is);
  }
  return {};
}

std::string size_difference(const Fingerprint& was, const Fingerprint& is,
                            const std::string& subject) {
  if (was.bytes == is.bytes)
    return formatted("{} have the same size, {}, and other content", subject, size_text(is.bytes));
  return formatted("{} had {}, now {}", subject, size_text(was.bytes), size_text(is.bytes));
}

std::string adapter_difference(const Manifest& manifest, const RunFingerprints& made_of) {
  const Fingerprint* was = find(manifest, "adapter");
  const auto is = made_of.of.find("adapter");
  if (is == made_of.of.end()) return was ? "its run started from an adapter, model.adapter" : "";
  if (!was) return "its run did not start from an adapter";
  return *was == is->second
             ? ""
             : size_difference(*was, is->second,
                               "the tensors of the adapter that the run started from");
}

std::map<std::string, std::string> of_data(std::map<std::string, std::string> settings) {
  std::map<std::string, std::string> kept;
  for (const detail::Key& key : detail::key_table()) {
    if (!key.affects_data) continue;
    if (auto node = settings.extract(key.full_name()); !node.empty()) kept.insert(std::move(node));
  }
  return kept;
}

}  // namespace

std::string model_difference(const Checkpoint& checkpoint, const RunFingerprints& made_of) {
  const Fingerprint* was = find(checkpoint.manifest(), "model");
  if (!was) return "its manifest records no model";
  const Fingerprint& is = made_of.of.at("model");
  if (*was == is) return adapter_difference(checkpoint.manifest(), made_of);
  const std::string config = config_difference(checkpoint.path(), made_of.model_config);
  if (!config.empty()) return config;
  if (was->bytes == 0) return "its run started from random weights";
  if (is.bytes == 0) return "its run started from given weights, this one from random weights";
  return size_difference(*was, is, "the weights that the run started from");
}

std::string data_difference(const Manifest& manifest, const RunFingerprints& made_of) {
  const Fingerprint* was = find(manifest, "data");
  if (!was) return "its manifest records no data";
  const Fingerprint& is = made_of.of.at("data");
  if (*was == is) return {};
  const std::string keys = changed_settings(of_data(manifest.settings), of_data(made_of.settings));
  const bool same_size = was->bytes == is.bytes;
  if (!keys.empty() && same_size) return keys;
  return size_difference(*was, is, "the files") + (keys.empty() ? "" : ", " + keys);
}

std::string decay_difference(const Manifest& manifest, const RunConfig& config) {
  const auto planned = manifest.settings.find(kSteps);
  const std::int64_t steps = config.training.steps;
  if (!depends_on_steps(config.lr_scheduler) || planned == manifest.settings.end() ||
      planned->second == std::to_string(steps))
    return {};
  const std::int64_t before = std::atoll(planned->second.c_str());
  const auto rate = [&](std::int64_t step, std::int64_t of_steps) {
    return shortest(learning_rate(step, of_steps, config.optimizer.lr, config.lr_scheduler));
  };
  return formatted(
      "{} was planned to end at step {}, and training.steps = {} stretches it: the learning rate "
      "goes from {} at step {} to {} at step {}",
      config.lr_scheduler.decay != Decay::kConstant ? "lr_scheduler.decay"
                                                    : "the run of lr_scheduler.warmup_ratio",
      before, steps, rate(manifest.step, before), manifest.step, rate(manifest.step + 1, steps),
      manifest.step + 1);
}

std::string changed_settings(const std::map<std::string, std::string>& before,
                             const std::map<std::string, std::string>& now) {
  if (before.empty()) return {};  // the checkpoint was not written by `sluice train`
  std::map<std::string, std::string> defaults;
  for (const detail::Key& key : detail::key_table())
    defaults[key.full_name()] = detail::to_toml(key.default_value());
  std::vector<std::string> changes;
  for (const auto& [key, value] : now) {
    if (key == kSteps) continue;
    const auto found = before.find(key);
    const std::string& was = found == before.end() ? defaults[key] : found->second;
    if (was != value) changes.push_back(formatted("{}: {} -> {}", key, was, value));
  }
  return join(changes, ", ");
}

}  // namespace sluice
