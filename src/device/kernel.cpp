#include "src/device/kernel.h"

namespace ferry {

std::string_view name_of(OpClass op_class) {
  constexpr std::string_view kNames[kOpClassCount] = {"matmul",        "convolution", "elementwise", "reduction",
                                                      "normalization", "pooling",     "gather",      "fill",
                                                      "copy",          "metadata"};
  return kNames[static_cast<int>(op_class)];
}

}  // namespace ferry
