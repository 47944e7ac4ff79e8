#include "profiler/page.h"

#include <fmt/format.h>

namespace ferry::profiler {
namespace {

constexpr std::string_view kHead = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>)html";

// A name may hold "</script>", which would end the element that holds the data.
std::string escaped(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

std::string page(const PageParts& parts, std::string_view data) {
  return fmt::format(
      "{}{}</title>\n<style>\n{}{}</style>\n</head>\n<body>\n<main></main>\n<div id=\"tip\"></div>\n"
      "<script type=\"application/json\" id=\"data\">\n{}\n</script>\n<script>\n{}{}</script>\n</body>\n</html>\n",
      kHead, parts.title, kSharedStyle, parts.style, escaped(data), kSharedScript, parts.script);
}

}  // namespace ferry::profiler
