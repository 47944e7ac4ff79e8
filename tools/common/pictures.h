// Labelled pictures in the idx format of MNIST, plain or compressed with gzip.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <ferry/tensor.h>

namespace program {

// Debian's package dataset-fashion-mnist.
constexpr const char* kFashionMnistFolder = "/usr/share/datasets/fashion-mnist";
constexpr std::int64_t kPictureClasses = 10;

struct PictureBatch {
  ferry::Tensor images;  // u8 [N, 1, height, width]
  ferry::Tensor labels;  // i64 [N]
};

class Pictures {
 public:
  // Reads STEM-images-idx3-ubyte[.gz] and STEM-labels-idx1-ubyte[.gz] of a folder; at most `limit` pictures unless 0.
  // Throws: ferry::InvalidArgument for missing files, saying what to install; ferry::ParseError.
  Pictures(const std::string& folder, const std::string& stem, std::int64_t limit);

  std::int64_t size() const { return static_cast<std::int64_t>(labels_.size()); }
  // The pictures at these positions.
  PictureBatch batch(std::span<const std::int32_t> positions) const;

 private:
  std::int64_t height_ = 0, width_ = 0;
  std::vector<std::uint8_t> pixels_, labels_;
};

// All positions in an order that follows from seed and epoch alone.
std::vector<std::int32_t> shuffled_positions(std::int64_t size, std::uint64_t seed, std::int64_t epoch);

}  // namespace program
