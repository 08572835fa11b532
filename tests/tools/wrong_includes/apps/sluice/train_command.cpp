#include <CLI/CLI.hpp>
#include "engine/out_of_memory.h"
