// The gradients of many parameters, as one op call a device takes them.
#pragma once

#include <map>
#include <source_location>
#include <vector>

#include <ferry/tensor.h>

namespace ferry::optim {

// What may be written of each gradient (autograd::own_gradient), by where it lives; parameters without one are left
// out.
std::map<Device, std::vector<Tensor>> own_gradients(const std::vector<Tensor>& parameters, bool coalesces,
                                                    std::source_location where);

}  // namespace ferry::optim
