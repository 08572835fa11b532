#include "commands.h"

namespace sluice {
Command data_command() {
  return {.name = "data",
          .help = "Tokenizes text, and shows what training files contain.",
          .commands = {tokenize_command(), inspect_command()}};
}

}  // namespace sluice
