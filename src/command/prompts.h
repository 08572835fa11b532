// A prompt and its continuation by a model.
//
// Owns: the tokens of a prompt, the choice of the next token, the end of a continuation, its text.
// Does not own: the pipeline. Every token runs the whole sequence: no keys and values are kept.
// Thread-safety: const members may be called from any thread.
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
  // Throws Error(kUsage) for a prompt without tokens or without room for one more, and for a model
  // that takes more than a text; Error(kInput) for a tokenizer that cannot be read, or bytes
  // without a vocabulary.
  Prompt(const RunConfig& config, const ModelSpec& spec, std::string text,
         const SampleOptions& options);

  // The length of the longest sequence that is run.
  std::int64_t length() const;
  // Warns of settings in generation_config.json by which transformers would choose other tokens,
  // and of a model without a tokenizer.
  std::vector<std::string> warnings() const;

  // Collective over the ranks; the same on every one.
  Continuation go_on(Pipeline& pipeline) const;

 private:
  std::string text_of(const std::vector<std::int32_t>& tokens) const;

  const ModelMaker* maker_;
  std::vector<ValueSpec> extra_;  // further inputs that follow from a text
  bool head_has_loss_;
  data::TextTokens tokens_;
  std::string text_, warning_;
  std::vector<std::int32_t> ids_;
  std::vector<std::int64_t> end_ids_;
  SampleOptions options_;
  std::int64_t longest_;
};

}  // namespace sluice
