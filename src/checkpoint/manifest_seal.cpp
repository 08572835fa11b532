#include "checkpoint/manifest_seal.h"

#include "base/content_hash.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr std::string_view kBefore = ",\n  \"hash\": \"", kAfter = "\"\n}\n";
constexpr std::size_t kDigits = 32;
constexpr std::size_t kSealBytes = kBefore.size() + kDigits + kAfter.size();

}  // namespace

std::string seal(std::string text) {
  const std::string hash = content_hash(text);
  text.append(kBefore).append(hash).append(kAfter);
  return text;
}

std::string_view unsealed(std::string_view text, const std::string& file) {
  const bool whole = text.size() >= kSealBytes && text.ends_with(kAfter) &&
                     text.substr(text.size() - kSealBytes).starts_with(kBefore);
  if (!whole) {
    throw Error(ErrorKind::kCheckpoint,
                {.what = "the manifest does not end with its hash: it was cut off or is foreign",
                 .where = file,
                 .remedy = "resume from another checkpoint"});
  }
  const std::string_view before = text.substr(0, text.size() - kSealBytes);
  const std::string_view said = text.substr(before.size() + kBefore.size(), kDigits);
  if (const std::string hash = content_hash(before); hash != said) {
    throw Error(ErrorKind::kCheckpoint,
                {.what = "the manifest has changed: its hash is " + hash + ", but it records " +
                         std::string(said),
                 .where = file,
                 .remedy = "it is damaged or was edited: resume from another checkpoint"});
  }
  return before;
}

}  // namespace sluice
