// The self-contained pages of reports: nothing is loaded from elsewhere, and all share one style and the functions
// of their scripts. Each page adds its own style and a script that fills <main>.
#pragma once

#include <string>
#include <string_view>

namespace ferry::profiler {

struct PageParts {
  std::string_view title;
  std::string_view style;   // after the shared one
  std::string_view script;  // after the shared functions, with `data` and `main`
};

// `data`: a JSON value as text, the script's `data`.
std::string page(const PageParts& parts, std::string_view data);

// What page puts before a page's own style and script; page_parts.cpp has the script's functions.
extern const std::string_view kSharedStyle;
extern const std::string_view kSharedScript;

}  // namespace ferry::profiler
