#include "sluice/executor.h"
