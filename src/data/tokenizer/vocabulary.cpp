#include "data/tokenizer/vocabulary.h"

#include <bit>

namespace sluice::data {

void TextIds::reserve(std::size_t count) {
  const std::size_t needed = std::bit_ceil(2 * (entries_.size() + count) + 1);
  if (needed <= slots_.size()) return;
  slots_.assign(needed, 0);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    std::size_t slot = entries_[i].hash & (needed - 1);
    while (slots_[slot] != 0) slot = (slot + 1) & (needed - 1);
    slots_[slot] = static_cast<std::uint32_t>(i + 1);
  }
}

std::size_t TextIds::slot_of(std::string_view text, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = hash & mask;; slot = (slot + 1) & mask) {
    if (slots_[slot] == 0) return slot;
    const Entry& entry = entries_[slots_[slot] - 1];
    if (entry.hash == hash && std::string_view(texts_).substr(entry.begin, entry.length) == text) {
      return slot;
    }
  }
}

void TextIds::insert(std::string_view text, std::int32_t id) {
  if (2 * (entries_.size() + 1) > slots_.size()) reserve(entries_.size() + 1);
  const std::uint64_t hash = hash_bytes(text);
  const std::size_t slot = slot_of(text, hash);
  if (slots_[slot] != 0) return;
  entries_.push_back({hash, texts_.size(), static_cast<std::uint32_t>(text.size()), id});
  texts_ += text;
  slots_[slot] = static_cast<std::uint32_t>(entries_.size());
}

std::int32_t TextIds::find(std::string_view text) const {
  if (slots_.empty()) return -1;
  const std::uint32_t entry = slots_[slot_of(text, hash_bytes(text))];
  return entry == 0 ? -1 : entries_[entry - 1].id;
}

void MergeTable::reserve(std::size_t count) {
  slots_.assign(std::bit_ceil(2 * count + 2), {kEmpty, {}});
  mask_ = slots_.size() - 1;
}

void MergeTable::set(std::int32_t left, std::int32_t right, Merge merge) {
  const std::uint64_t key = key_of(left, right);
  std::size_t slot = mix_bits(key ^ kHashSalt) & mask_;
  while (slots_[slot].key != key && slots_[slot].key != kEmpty) slot = (slot + 1) & mask_;
  slots_[slot] = {key, merge};
}

}  // namespace sluice::data
