// The host kernels, one declaration each; contracts in src/ops/attributes.h.
#pragma once

#include "src/device/kernel.h"

namespace ferry::cpu_backend {

}  // namespace ferry::cpu_backend
