// Generates text that continues a prompt, without a key-value cache.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "command/job.h"
#include "config/run_config.h"
#include "data/text_tokens.h"
#include "model/model_maker.h"
#include "sluice/model_spec.h"
#include "sluice/pipeline.h"

namespace sluice {

class Prompt {
 public:
  // Throws Error(kUsage) if the prompt has no tokens or is too long, or if the model needs more
  // than a text. Throws Error(kInput) for an unreadable tokenizer, or for byte tokens if the model
  // has no vocabulary.
  Prompt(const RunConfig& config, const ModelSpec& spec, std::string text,
         const SampleOptions& options);

  std::int64_t length() const;
  // Warns if transformers would choose other tokens because of generation_config.json, and if the
  // model has no tokenizer.
  std::vector<std::string> warnings() const;

  // Collective over all ranks.
  Continuation go_on(Pipeline& pipeline) const;

 private:
  std::string text_of(const std::vector<std::int32_t>& tokens) const;

  const ModelMaker* maker_;
  std::vector<ValueSpec> extra_;
  bool head_has_loss_;
  data::TextTokens tokens_;
  std::string text_, warning_;
  std::vector<std::int32_t> ids_;
  std::vector<std::int64_t> end_ids_;
  SampleOptions options_;
  std::int64_t longest_;
};

}  // namespace sluice
