// How the report writes numbers, places in the source and tables.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "profiler/summary.h"

namespace ferry::profiler {

// Milliseconds with six significant digits, never in exponent form: "0.004512", "24.0922", "1234567".
std::string milliseconds(Nanoseconds time);
// "14.9485%"
std::string percent(double ratio);
// "14.95%"
std::string short_percent(double ratio);

// The name of a function without its return type, parameters and unnamed namespaces: "main",
// "ferry::nn::Conv2d::forward".
std::string short_function(std::string_view function);
// "src/main.cpp:31 (main)"; "an unknown line" for -1.
std::string site_text(const trace::Trace& trace, trace::SiteIndex site);
// The tensor's name, "a tensor" for -1.
std::string tensor_text(const trace::Trace& trace, trace::TensorIndex tensor);
// "10 synchronous copies", "1 synchronous copy"
std::string counted(std::int64_t count, std::string_view singular, std::string_view plural);

// "crop ran on gpu:0, the default device, and reads slice_0 in host memory": why the copies of a hotspot went there.
std::string placement_text(const trace::Trace& trace, const trace::Hotspot& hotspot);
// What is said of a hotspot without advice.
constexpr const char* kNoAdvice =
    "Moving no recorded op would save time; tensors made before recording stay where they are.";
// The earlier finding that proposes the same change, by its place; -1: none.
int same_change(const std::vector<trace::Hotspot>& findings, std::size_t finding, const trace::Advice& advice);
// The advice as one sentence: "put slice (main.cpp:31) into …: removes …", or that it is the change of another finding.
std::string advice_text(const std::vector<trace::Hotspot>& findings, std::size_t finding, const trace::Advice& advice);
// The text in lines of at most `width` columns, each but the first after `indent` spaces; no newline at the end.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);
// Completes "Sorted by …": "total time in descending order in the same thread".
std::string_view sort_text(SortKey sort);

// Lines of cells, each column as wide as its widest cell. Columns align left or right; cells are UTF-8.
class TextTable {
 public:
  enum class Align { left, right };
  explicit TextTable(std::vector<Align> columns, int gap = 2) : columns_(std::move(columns)), gap_(gap) {}

  // Requires: as many cells as columns.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // Columns are `gap` spaces apart; no spaces at line ends.
  std::string render() const;

 private:
  std::vector<Align> columns_;
  int gap_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ferry::profiler
