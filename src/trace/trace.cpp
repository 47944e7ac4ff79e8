#include "src/trace/trace.h"

namespace ferry::trace {

const std::string& Trace::string(StringIndex i) const {
  static const std::string kEmpty;
  return i < 0 ? kEmpty : strings[static_cast<std::size_t>(i)];
}

}  // namespace ferry::trace
