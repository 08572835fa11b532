#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/key_hash.h"

namespace sluice::data {

// Random per process, so that malicious files cannot force hash collisions.
inline const std::uint64_t kHashSalt =
    (std::uint64_t{std::random_device{}()} << 32) ^ std::random_device{}();

inline std::uint64_t hash_bytes(std::string_view bytes) {
  std::uint64_t hash = kHashSalt ^ (bytes.size() * 0x9e3779b97f4a7c15ULL);
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    hash = (hash ^ word) * 0xbf58476d1ce4e5b9ULL;
    hash ^= hash >> 29;
  }
  std::uint64_t word = 0;
  std::memcpy(&word, at, left);
  return mix_bits(hash ^ word);
}

class TextIds {
 public:
  void reserve(std::size_t count);
  // Keeps the first id of a text.
  void insert(std::string_view text, std::int32_t id);
  std::int32_t find(std::string_view text) const;
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::uint64_t hash;
    std::size_t begin;
    std::uint32_t length;
    std::int32_t id;
  };
  std::size_t slot_of(std::string_view text, std::uint64_t hash) const;

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> slots_;  // entry index + 1, or 0 if the slot is empty
  std::string texts_;
};

struct Merge {
  std::uint32_t rank;
  std::int32_t id;
};

class MergeTable {
 public:
  void reserve(std::size_t count);
  // Overwrites an earlier merge.
  void set(std::int32_t left, std::int32_t right, Merge merge);
  const Merge* find(std::int32_t left, std::int32_t right) const {
    if (slots_.empty()) return nullptr;
    const std::uint64_t key = key_of(left, right);
    for (std::size_t slot = mix_bits(key ^ kHashSalt) & mask_;; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return &slots_[slot].merge;
      if (slots_[slot].key == kEmpty) return nullptr;
    }
  }

 private:
  struct Slot {
    std::uint64_t key;
    Merge merge;
  };
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
};

}  // namespace sluice::data
