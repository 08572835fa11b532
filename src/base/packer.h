// Packs messages between ranks.
//
// Each value follows a tag byte. 'b' bool: 1 byte, 0 or 1. 'i' integer: 8 bytes, signed. 'd'
// double: 8 bytes. 's' string: length as 8 bytes, then its bytes. 'B', 'I', 'D', 'S' lists: length
// as 8 bytes, then elements without tags. Numbers are little-endian.
//
// Unpacking returns exactly the packed bits, or throws Error(kPeer). Damaged bytes cannot make it
// allocate much more than their size.
#pragma once

#include <bit>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace detail {

template <typename T>
inline constexpr bool kIsList = false;
template <typename T>
inline constexpr bool kIsList<std::vector<T>> = true;

template <typename T>
struct PackedElement {
  using Type = T;
};
template <typename T>
struct PackedElement<std::vector<T>> {
  using Type = T;
};

template <typename T>
constexpr char packed_tag() {
  using Element = typename PackedElement<T>::Type;
  const char tag = std::same_as<Element, bool>     ? 'b'
                   : std::integral<Element>        ? 'i'
                   : std::same_as<Element, double> ? 'd'
                                                   : 's';
  return kIsList<T> ? static_cast<char>(tag - 'a' + 'A') : tag;
}

}  // namespace detail

// All integers travel as 64 bits and must fit the type that reads them.
template <typename T>
concept Packable = std::integral<typename detail::PackedElement<T>::Type> ||
                   std::same_as < typename detail::PackedElement<T>::Type,
double > || std::same_as<typename detail::PackedElement<T>::Type, std::string>;

class Packer {
 public:
  // Integers must be below 2^63.
  template <Packable T>
  Packer& add(const T& value) {
    bytes_ += detail::packed_tag<T>();
    if constexpr (detail::kIsList<T>) {
      put_bits(value.size());
      for (const typename T::value_type& element : value) put(element);
    } else {
      put(value);
    }
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void put_bits(std::uint64_t bits);
  void put(double value) { put_bits(std::bit_cast<std::uint64_t>(value)); }
  void put(const std::string& value) {
    put_bits(value.size());
    bytes_ += value;
  }
  template <std::integral T>
  void put(T value) {
    if constexpr (std::same_as<T, bool>) {
      bytes_ += value ? '\1' : '\0';
    } else {
      assert(std::in_range<std::int64_t>(value));
      put_bits(static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
    }
  }

  std::string bytes_;
};

class Unpacker {
 public:
  Unpacker(std::string bytes, std::string where)
      : bytes_(std::move(bytes)), where_(std::move(where)) {}

  template <Packable T>
  T take() {
    take_tag(detail::packed_tag<T>());
    if constexpr (detail::kIsList<T>) {
      using Element = typename T::value_type;
      T list;
      std::size_t length = take_length(std::same_as<Element, bool> ? 1 : 8);
      list.reserve(length);
      for (; length > 0; --length) list.push_back(get<Element>());
      return list;
    } else {
      return get<T>();
    }
  }
  // Throws if values are left.
  void finish() const;

 private:
  [[noreturn]] void fail(const std::string& expected, const std::string& found) const;
  void take_tag(char expected);
  std::size_t take_length(std::size_t bytes_each);
  std::uint64_t take_bits();
  bool take_bool();
  template <Packable T>
  T get() {
    if constexpr (std::same_as<T, bool>) {
      return take_bool();
    } else if constexpr (std::same_as<T, double>) {
      return std::bit_cast<double>(take_bits());
    } else if constexpr (std::same_as<T, std::string>) {
      const std::size_t length = take_length(1);
      return bytes_.substr(std::exchange(at_, at_ + length), length);
    } else {
      const auto value = static_cast<std::int64_t>(take_bits());
      if (!std::in_range<T>(value)) {
        fail("an integer of " + std::to_string(8 * sizeof(T)) + " bits", std::to_string(value));
      }
      return static_cast<T>(value);
    }
  }

  std::string bytes_;
  std::string where_;
  std::size_t at_ = 0;
};

}  // namespace sluice
