#include "sluice/named.h"
#include "sluice/nobody.h"
