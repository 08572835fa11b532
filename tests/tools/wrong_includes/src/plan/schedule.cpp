#include "sluice/schedule.h"
