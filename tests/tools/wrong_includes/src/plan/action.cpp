#include "run/executor.h"
