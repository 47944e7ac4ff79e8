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

// The name of a function without its return type and parameters: "main", "ferry::nn::Conv2d::forward".
std::string short_function(std::string_view function);
// "src/main.cpp:31 (main)"; "an unknown line" for -1.
std::string site_text(const trace::Trace& trace, trace::SiteIndex site);
// The tensor's name, "a tensor" for -1.
std::string tensor_text(const trace::Trace& trace, trace::TensorIndex tensor);
// "10 synchronous copies", "1 synchronous copy"
std::string counted(std::int64_t count, std::string_view singular, std::string_view plural);

// "crop ran on gpu:0, the default device, and reads slice_0 in host memory": why the copies of a hotspot went there.
std::string placement_text(const trace::Trace& trace, const trace::Hotspot& hotspot);
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
