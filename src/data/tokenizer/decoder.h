// Converts tokens to text with the field "decoder" of tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/tokenizer/json_field.h"
#include "data/tokenizer/pattern.h"

namespace sluice::data {

class DecoderPart {
 public:
  virtual ~DecoderPart() = default;
  // May stop after `most` bytes of output.
  virtual void apply(std::vector<std::string>& tokens, PatternScratch& scratch,
                     std::size_t most) const = 0;
};

class Decoder {
 public:
  // Throws Error(kInput) for an unsupported part.
  explicit Decoder(const JsonField& field);

  // Without a decoder, joins the tokens with spaces. Throws Error(kInput) if the text grows more
  // than kMaxGrowth times.
  std::string decode(std::vector<std::string> tokens) const;

 private:
  void add(const JsonField& field);
  std::string where_;
  std::vector<std::unique_ptr<DecoderPart>> parts_;
  bool has_parts_ = false;
};

}  // namespace sluice::data
