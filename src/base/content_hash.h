// 128-bit XXH3 (https://xxhash.com) in hexadecimal. It detects damage, not tampering.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace sluice {

class ContentHash {
 public:
  ContentHash();
  ~ContentHash();
  ContentHash(const ContentHash&) = delete;
  ContentHash& operator=(const ContentHash&) = delete;

  void add(const void* data, std::size_t count);
  std::string digits() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string content_hash(std::string_view bytes);

}  // namespace sluice
