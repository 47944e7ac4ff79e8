// The page around the report's data: style, tables and a timeline that is drawn on a canvas.
#pragma once

namespace ferry::profiler {

// The data, a JSON object, goes between the two.
extern const char* const kHtmlHead;
extern const char* const kHtmlTail;

}  // namespace ferry::profiler
