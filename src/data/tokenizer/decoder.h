// The field "decoder" of tokenizer.json: tokens to text.
//
// Owns: the parts ByteLevel, Metaspace, ByteFallback, Fuse, Replace, Strip, BPEDecoder and
// Sequence. Does not own: which tokens there are. Thread-safety: const members may be called from
// any thread.
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
  // most: bytes of what it makes; it may stop there.
  virtual void apply(std::vector<std::string>& tokens, PatternScratch& scratch,
                     std::size_t most) const = 0;
};

class Decoder {
 public:
  // Throws Error(kInput) naming the field: malformed, a part that is not known.
  explicit Decoder(const JsonField& field);

  // Without a decoder, tokens are put together with spaces between them. Throws Error(kInput) when
  // they become more than kMaxGrowth times as long.
  std::string decode(std::vector<std::string> tokens) const;

 private:
  void add(const JsonField& field);
  std::string where_;
  std::vector<std::unique_ptr<DecoderPart>> parts_;
  bool has_parts_ = false;
};

}  // namespace sluice::data
