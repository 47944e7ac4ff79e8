// The page around a comparison's data: style, tables, and a chart that is drawn on a canvas.
#pragma once

#include <string>

namespace ferry::cli {

// The data, a JSON object, goes between the two.
extern const std::string kComparePageHead;
extern const std::string kComparePageTail;

}  // namespace ferry::cli
