// The comparison as one self-contained page: memory over time against the budget, streams with compute, swaps and
// recomputation, and what each plan decided.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "tools/ferry/comparison.h"

namespace ferry::cli {

// What the plan does with each tensor, the largest first: what it costs and why.
nlohmann::ordered_json decisions_json(const swap::Plan& plan, const swap::Iteration& iteration);

// `figures`: what --json writes; its rows are those of `rows`.
std::string compare_page(const nlohmann::ordered_json& figures, std::span<const MeasuredRow> rows);

}  // namespace ferry::cli
