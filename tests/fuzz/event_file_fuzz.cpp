// The result must be an Error at a record of the file, or scalars. tests/fuzz/fuzz.cmake renames
// the function to libFuzzer's entry point. A mutated record hardly ever has the right checksum, so
// the input is read twice: as a file, and as the message of one record.
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/require.h"
#include "report/compare/event_reader.h"
#include "report/event_file.h"
#include "sluice/error.h"

using sluice::test::require;

extern "C" int fuzz_event_file(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const std::string& file : {std::string(bytes), sluice::detail::tf_record(bytes)}) {
    sluice::Scalars scalars;
    try {
      sluice::read_events(file, "events", scalars);
      std::size_t count = 0;
      for (const auto& [tag, curve] : scalars.curves) count += curve.size();
      require(count <= file.size());
    } catch (const sluice::Error& error) {
      require(error.kind() == sluice::ErrorKind::kInput);
      require(error.where().starts_with("events, record "));
    }
  }
  return 0;
}
