#include "base/packer.h"

#include "base/format.h"
#include "sluice/error.h"

namespace sluice {
namespace {

std::string name_of(char tag) {
  switch (tag) {
    case 'b':
      return "a bool";
    case 'i':
      return "an integer";
    case 'd':
      return "a double";
    case 's':
      return "a string";
    case 'B':
      return "a list of bools";
    case 'I':
      return "a list of integers";
    case 'D':
      return "a list of doubles";
    case 'S':
      return "a list of strings";
    default:
      return "a byte " + std::to_string(static_cast<unsigned char>(tag));
  }
}

std::string bytes_text(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " byte" : " bytes");
}

}  // namespace

void Packer::put_bits(std::uint64_t bits) {
  for (int shift = 0; shift < 64; shift += 8) bytes_ += static_cast<char>(bits >> shift & 0xff);
}

void Unpacker::fail(const std::string& expected, const std::string& found) const {
  throw Error(
      ErrorKind::kPeer,
      {.what = formatted("a message has unexpected content: expected {}, found {} before byte {}",
                         expected, found, at_),
       .where = where_,
       .remedy = "run the same build of sluice on every rank"});
}

void Unpacker::take_tag(char expected) {
  if (at_ == bytes_.size()) fail(name_of(expected), "the end");
  const char found = bytes_[at_++];
  if (found != expected) fail(name_of(expected), name_of(found));
}

std::uint64_t Unpacker::take_bits() {
  const std::size_t left = bytes_.size() - at_;
  if (left < 8) fail("8 bytes", bytes_text(left));
  std::uint64_t bits = 0;
  for (int shift = 0; shift < 64; shift += 8) {
    bits |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes_[at_++])) << shift;
  }
  return bits;
}

std::size_t Unpacker::take_length(std::size_t bytes_each) {
  const std::uint64_t length = take_bits();
  const std::size_t left = bytes_.size() - at_;
  if (length > left / bytes_each) {
    fail(formatted("room for {} elements", length), bytes_text(left));
  }
  return length;
}

bool Unpacker::take_bool() {
  if (at_ == bytes_.size()) fail("a bool", "the end");
  const char found = bytes_[at_++];
  if (found != '\0' && found != '\1') fail("a bool", name_of(found));
  return found == '\1';
}

void Unpacker::finish() const {
  if (at_ != bytes_.size()) fail("the end", bytes_text(bytes_.size() - at_));
}

}  // namespace sluice
