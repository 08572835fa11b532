#include "job/store_protocol.h"

#include <algorithm>

#include "base/format.h"
#include "job/sha256.h"

namespace sluice {
namespace {

constexpr std::size_t kLengthBytes = 4, kSealBytes = 16;

std::string little_endian(std::uint64_t value, std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

std::string seal_of(const std::string& key, std::uint64_t number, const std::string& bytes) {
  return bytes_of(hmac_sha256(key, little_endian(number, 8) + bytes), kSealBytes);
}

}  // namespace

Greeting::Greeting(std::string secret, std::string server_nonce, std::string client_nonce)
    : secret_(std::move(secret)), nonces_(std::move(server_nonce) + client_nonce) {}

std::string Greeting::client_proof() const {
  return bytes_of(hmac_sha256(secret_, "sluice store 1, client" + nonces_));
}

std::string Greeting::server_proof() const {
  return bytes_of(hmac_sha256(secret_, "sluice store 1, server" + nonces_));
}

std::string Greeting::key(bool from_client) const {
  const std::string which = from_client ? "frames of the client" : "frames of the server";
  return bytes_of(hmac_sha256(secret_, "sluice store 1, " + which + nonces_));
}

std::string FrameWriter::frame(const std::string& bytes) {
  if (bytes.size() > kMaxFrame) {
    throw Error(
        ErrorKind::kUsage,
        {.what = formatted("a value of {} bytes exceeds the {} that the store of a job takes",
                           bytes.size(), kMaxFrame)});
  }
  return little_endian(bytes.size(), kLengthBytes) + bytes + seal_of(key_, number_++, bytes);
}

std::optional<std::string> FrameReader::take(std::string& bytes) {
  if (bytes.size() < kLengthBytes) return std::nullopt;
  std::size_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    length |= std::size_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  if (length > kMaxFrame) {
    throw Error(
        ErrorKind::kPeer,
        {.what = formatted("a message to or from the job's store announces {} bytes", length),
         .remedy = "run the same build of sluice in every process"});
  }
  if (bytes.size() < kLengthBytes + length + kSealBytes) return std::nullopt;
  std::string frame = bytes.substr(kLengthBytes, length);
  if (!same_bytes(bytes.substr(kLengthBytes + length, kSealBytes), seal_of(key_, number_, frame))) {
    throw Error(ErrorKind::kPeer, {.what = "a message to or from the job's store was changed",
                                   .remedy = "check for a firewall or proxy between the machines"});
  }
  ++number_;
  bytes.erase(0, kLengthBytes + length + kSealBytes);
  return frame;
}

void put_failure(Packer& writer, const JobFailure& failure) {
  writer.add(failure.process)
      .add(failure.rank)
      .add(static_cast<int>(failure.kind))
      .add(failure.message)
      .add(failure.teller);
}

JobFailure take_failure(Unpacker& reader) {
  JobFailure failure;
  failure.process = reader.take<int>();
  failure.rank = reader.take<int>();
  const int kind = reader.take<int>();
  failure.kind =
      kind >= static_cast<int>(ErrorKind::kInternal) && kind <= static_cast<int>(ErrorKind::kMemory)
          ? static_cast<ErrorKind>(kind)
          : ErrorKind::kPeer;
  failure.message = reader.take<std::string>();
  failure.teller = reader.take<int>();
  return failure;
}

}  // namespace sluice
