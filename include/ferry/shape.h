// Dims: up to eight 64-bit extents (a Shape) or element strides (Strides), held inline so that making and copying one
// never allocates.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace ferry {

constexpr int kMaxRank = 8;

class Dims {
 public:
  constexpr Dims() = default;
  // Throws: ShapeError for more than kMaxRank values.
  constexpr Dims(std::initializer_list<std::int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
  constexpr explicit Dims(std::span<const std::int64_t> values) {
    if (values.size() > kMaxRank) throw_rank(values.size());
    rank_ = static_cast<std::int8_t>(values.size());
    std::copy(values.begin(), values.end(), values_.begin());
  }
  static constexpr Dims filled(int rank, std::int64_t value) {
    Dims dims;
    if (rank < 0 || rank > kMaxRank) throw_rank(static_cast<std::size_t>(rank));
    dims.rank_ = static_cast<std::int8_t>(rank);
    std::fill_n(dims.values_.begin(), rank, value);
    return dims;
  }

  constexpr int rank() const { return rank_; }
  constexpr std::int64_t operator[](int i) const { return values_[static_cast<std::size_t>(i)]; }
  constexpr std::int64_t& operator[](int i) { return values_[static_cast<std::size_t>(i)]; }
  // Requires: rank() > 0.
  constexpr std::int64_t back() const { return (*this)[rank_ - 1]; }
  constexpr std::int64_t& back() { return (*this)[rank_ - 1]; }

  constexpr const std::int64_t* begin() const { return values_.data(); }
  constexpr const std::int64_t* end() const { return values_.data() + rank_; }
  constexpr std::int64_t* begin() { return values_.data(); }
  constexpr std::int64_t* end() { return values_.data() + rank_; }

  // Throws: ShapeError when full.
  constexpr void push_back(std::int64_t value) {
    if (rank_ == kMaxRank) throw_rank(kMaxRank + 1);
    values_[static_cast<std::size_t>(rank_++)] = value;
  }

  // The product of all values; 1 for rank 0. Wraps around where it does not fit: what makes a tensor checks its
  // extents.
  constexpr std::int64_t product() const {
    std::uint64_t product = 1;
    for (const std::int64_t value : *this) product *= static_cast<std::uint64_t>(value);
    return static_cast<std::int64_t>(product);
  }

  friend constexpr bool operator==(const Dims& a, const Dims& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i) {
      if (a[i] != b[i]) return false;
    }
    return true;
  }

 private:
  [[noreturn]] static void throw_rank(std::size_t rank);

  std::array<std::int64_t, kMaxRank> values_{};
  std::int8_t rank_ = 0;
};

using Shape = Dims;
using Strides = Dims;  // in elements

// Row-major strides of a dense tensor. Throws: ShapeError for a negative extent or more than 2^56 elements.
Strides contiguous_strides(const Shape& shape);

// Strides of a dense [N, C, H, W] tensor whose channels are innermost (NHWC in memory). Requires: rank 4.
Strides channels_last_strides(const Shape& shape);

// "[2, 3, 4]"
std::string to_string(const Dims& dims);

}  // namespace ferry
