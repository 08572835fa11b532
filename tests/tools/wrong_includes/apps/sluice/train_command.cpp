#include <CLI/CLI.hpp>
#include "engine/rank_errors.h"
