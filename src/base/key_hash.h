// Turns a random stream's key into its initial bits. Changes here change the results of every run.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

// The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), a bijection.
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

constexpr std::uint64_t next_bits(std::uint64_t& state) {
  return mix_bits(state += 0x9e3779b97f4a7c15ULL);
}

constexpr std::uint64_t absorb(std::uint64_t hash, std::uint64_t value) {
  return mix_bits((hash ^ value) + 0x9e3779b97f4a7c15ULL);
}

// FNV-1a, mixed because its high bits are poor for short names.
constexpr std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return mix_bits(hash);
}

}  // namespace sluice
