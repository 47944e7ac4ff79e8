#include "tests/ops/op_case.h"

#include <algorithm>

namespace ferry::test {

const std::vector<DType>& floats() {
  static const std::vector<DType> kFloats = {DType::f32, DType::f64, DType::f16, DType::bf16};
  return kFloats;
}

const std::vector<DType>& numbers() {
  static const std::vector<DType> kNumbers = {DType::f32, DType::f64, DType::f16, DType::bf16,
                                              DType::i32, DType::i64, DType::u8};
  return kNumbers;
}

const std::vector<DType>& all_types() {
  static const std::vector<DType> kAll = {DType::f32, DType::f64, DType::f16, DType::bf16,
                                          DType::i32, DType::i64, DType::u8,  DType::boolean};
  return kAll;
}

Input ids(const Shape& shape, std::int64_t rows, DType dtype) { return {shape, 0, static_cast<double>(rows), dtype}; }

Input fixed_ids(const std::vector<double>& values, DType dtype) {
  return {Shape{static_cast<std::int64_t>(values.size())}, 0, 0, dtype, values};
}

const std::vector<std::pair<std::string, std::vector<OpCase>>>& cases_by_op() {
  static const auto kCases = [] {
    std::vector<std::pair<std::string, std::vector<OpCase>>> result;
    for (const auto cases : {activation_cases, elementwise_cases, in_place_cases, reduction_cases, matmul_cases,
                             movement_cases, image_cases, normalization_cases, sample_normalization_cases, lookup_cases,
                             loss_cases, convolution_cases, indexing_cases, attention_cases, recurrent_cases}) {
      for (OpCase& each : cases()) {
        auto found = std::ranges::find(result, each.op, &std::pair<std::string, std::vector<OpCase>>::first);
        if (found == result.end()) found = result.insert(result.end(), {each.op, {}});
        found->second.push_back(std::move(each));
      }
    }
    return result;
  }();
  return kCases;
}

}  // namespace ferry::test
