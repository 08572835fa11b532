#include "sluice/schedule.h"
#include <nlohmann/json.hpp>
