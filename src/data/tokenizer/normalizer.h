// The field "normalizer" of tokenizer.json: what a text becomes before it is split.
//
// Owns: the parts NFC, NFD, NFKC, NFKD, Prepend, Replace, Lowercase, Strip, StripAccents, ByteLevel
// and Sequence. Does not own: added tokens, which are taken out before or after (added_tokens.h).
// Thread-safety: const members may be called from any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/tokenizer/json_field.h"
#include "data/tokenizer/text_piece.h"

namespace sluice::data {

// The longest compatible decomposition is 11 times as long as its character.
inline constexpr std::size_t kMaxGrowth = 32, kFreeGrowth = 1 << 16;

class NormalizerPart {
 public:
  virtual ~NormalizerPart() = default;
  // scratch.most_bytes: of the text that it makes; it may stop there.
  virtual void apply(OwnedPiece& piece, EncodeScratch& scratch) const = 0;
};

class Normalizer {
 public:
  // Throws Error(kInput) naming the field: malformed, a part that is not known.
  explicit Normalizer(const JsonField& field);

  bool is_identity() const { return parts_.empty(); }
  // Throws Error(kInput) when the text becomes more than kMaxGrowth times as long.
  void apply(OwnedPiece& piece, EncodeScratch& scratch) const;

 private:
  void add(const JsonField& field);
  std::string where_;
  std::vector<std::unique_ptr<NormalizerPart>> parts_;
};

}  // namespace sluice::data
