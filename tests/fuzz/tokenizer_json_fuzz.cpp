// The result must be an input error, or a tokenizer that encodes any text to ids within its range
// and decodes them.
#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/require.h"
#include "sluice/error.h"
#include "sluice/tokenizer.h"

using sluice::test::require;

namespace {

constexpr const char* kTexts[] = {"", "Hello wörld, abc  123\n\n <s>x</s>",
                                  "e\xCC\x81\xF0\x9F\x91\x8D \xE4\xBA\xAC\xFF",
                                  "    \t\r\n'LL 've ab"};

}  // namespace

extern "C" int fuzz_tokenizer_json(const std::uint8_t* data, std::size_t size) {
  try {
    const sluice::Tokenizer tokenizer =
        sluice::Tokenizer::parse({reinterpret_cast<const char*>(data), size}, "tokenizer.json");
    for (const char* text : kTexts) {
      const std::vector<std::int32_t> ids = tokenizer.encode(text);
      for (const std::int32_t id : ids) require(id >= 0 && id < tokenizer.num_ids());
      require(tokenizer.encode(text) == ids);
      tokenizer.decode(ids);
      tokenizer.encode_continuation(text);
    }
  } catch (const sluice::Error& error) {
    require(error.kind() == sluice::ErrorKind::kInput);
  }
  return 0;
}
