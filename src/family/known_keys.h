// The configuration keys of transformers and PEFT. No key that affects numbers is ignored.
// tests/oracle/check_keys.py compares the tables with both libraries. Keys outside the tables have
// no effect.
#pragma once

#include <span>
#include <string>

#include "family/config_reader.h"

namespace sluice::detail {

enum class KeyUse {
  kRead,      // read or rejected by the family's reader
  kHarmless,  // affects no loss or gradient
  kRefused,   // only neutral values are accepted
};

struct KnownKey {
  const char* name;
  KeyUse use;
  const char* families = "";  // separated by spaces; "" for all
  const char* neutral = "";   // JSON list of accepted values
};

std::span<const KnownKey> config_keys();
std::span<const KnownKey> adapter_keys();

const KnownKey* find_known_key(std::span<const KnownKey> keys, const std::string& name,
                               const std::string& family = {});

// Throws Error(kInput) for a kRefused key with a value that is not neutral.
void require_neutral_keys(const ConfigReader& config, std::span<const KnownKey> keys,
                          const std::string& family = {});

}  // namespace sluice::detail
