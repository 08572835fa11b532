#include <CLI/CLI.hpp>
#include "run/out_of_memory.h"
