// libtorch's training step of ResNet-50, in one of its memory formats; what it does is in benchmarks/resnet.h.
#pragma once

#include <torch/types.h>

#include "benchmarks/worker.h"

namespace bench {

Batch resnet50_step(torch::MemoryFormat format);

}  // namespace bench
