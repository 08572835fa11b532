// sluice data ...: text and ids. One function of commands.h for each command below it.

#include "commands.h"

namespace sluice {
Command data_command() {
  return {.name = "data",
          .help = "Turns text into ids, and says what files hold.",
          .commands = {tokenize_command(), inspect_command()}};
}

}  // namespace sluice
