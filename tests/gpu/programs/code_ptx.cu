#include "code.h"
