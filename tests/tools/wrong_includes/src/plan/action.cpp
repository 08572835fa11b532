#include "sluice/parts/executor.h"
