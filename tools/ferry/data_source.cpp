#include "tools/ferry/data_source.h"

#include <fmt/format.h>

#include <fstream>
#include <random>
#include <sstream>
#include <vector>

#include "src/base/check.h"
#include "tools/common/pictures.h"

namespace ferry::cli {
namespace {

constexpr std::string_view kTextPrefix = "text:";
// What models that go from left to right call their targets; others have the answer before their eyes.
constexpr std::string_view kNextWords = "next words";

class RandomData final : public DataSource {
 public:
  RandomData(const models::Model& model, std::int64_t batch, std::uint64_t seed)
      : model_(model), batch_(batch), seed_(seed) {}

  models::Batch batch(std::int64_t step) const override {
    return model_.random_batch(batch_, seed_ + static_cast<std::uint64_t>(step));
  }
  std::string describe() const override { return "noise in the model's shapes"; }

 private:
  const models::Model& model_;
  std::int64_t batch_;
  std::uint64_t seed_;
};

// Fashion-MNIST in the model's shape: each pixel is the nearest one of the original, each channel the same.
class PictureData final : public DataSource {
 public:
  PictureData(const models::Batch& example, std::int64_t batch, std::uint64_t seed)
      : pictures_(program::kFashionMnistFolder, "train", 0), batch_(batch), seed_(seed) {
    FERRY_CHECK(example.inputs.size() == 1 && example.inputs[0].rank() == 4 && is_floating(example.inputs[0].dtype()) &&
                    example.targets.rank() == 1,
                InvalidArgument, "--data fashion-mnist: the model does not tell pictures apart");
    dtype_ = example.inputs[0].dtype();
    channels_ = example.inputs[0].size(1);
    size_ = example.inputs[0].size(2);
  }

  models::Batch batch(std::int64_t step) const override {
    const std::int64_t per_epoch = pictures_.size() / batch_;
    const std::int64_t epoch = step / per_epoch;
    if (epoch != shuffled_epoch_) {
      order_ = program::shuffled_positions(pictures_.size(), seed_, epoch);
      shuffled_epoch_ = epoch;
    }
    const program::PictureBatch raw = pictures_.batch(std::span(order_).subspan(
        static_cast<std::size_t>(step % per_epoch * batch_), static_cast<std::size_t>(batch_)));
    return {{named(scaled(raw.images.to_vector<std::uint8_t>(), raw.images.size(2)).to(dtype_), "pictures")},
            raw.labels,
            batch_};
  }
  std::string describe() const override {
    return fmt::format("{} pictures of {}, scaled to {} x {} x {}", pictures_.size(), program::kFashionMnistFolder,
                       channels_, size_, size_);
  }

 private:
  Tensor scaled(const std::vector<std::uint8_t>& pixels, std::int64_t extent) const {
    constexpr float kMean = 0.286F, kDeviation = 0.353F;  // of the training pictures, pixels from 0 to 1
    std::vector<float> values;
    values.reserve(static_cast<std::size_t>(batch_ * channels_ * size_ * size_));
    for (std::int64_t n = 0; n < batch_; ++n) {
      for (std::int64_t c = 0; c < channels_; ++c) {
        for (std::int64_t y = 0; y < size_; ++y) {
          const std::int64_t row = (n * extent + y * extent / size_) * extent;
          for (std::int64_t x = 0; x < size_; ++x) {
            const float pixel = pixels[static_cast<std::size_t>(row + x * extent / size_)];
            values.push_back((pixel / 255.0F - kMean) / kDeviation);
          }
        }
      }
    }
    return from_vector(values, {batch_, channels_, size_, size_});
  }

  program::Pictures pictures_;
  std::int64_t batch_, channels_ = 0, size_ = 0;
  std::uint64_t seed_;
  DType dtype_ = DType::f32;
  mutable std::vector<std::int32_t> order_;
  mutable std::int64_t shuffled_epoch_ = -1;
};

// Windows of bytes from random places.
class TextData final : public DataSource {
 public:
  TextData(const std::string& path, const models::Batch& example, std::int64_t batch, std::uint64_t seed)
      : path_(path), batch_(batch), seed_(seed) {
    FERRY_CHECK(example.inputs.size() == 1 && example.inputs[0].rank() == 2 &&
                    !is_floating(example.inputs[0].dtype()) && example.targets.shape() == example.inputs[0].shape() &&
                    example.targets.name() == kNextWords,
                InvalidArgument, "--data text: the model does not predict the next token of a text");
    length_ = example.inputs[0].size(1);
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    FERRY_CHECK(file.good() && (text << file.rdbuf()), InvalidArgument, "--data: '{}' cannot be read or is empty",
                path);
    text_ = text.str();
    FERRY_CHECK(static_cast<std::int64_t>(text_.size()) > length_, InvalidArgument,
                "--data: '{}' has {} bytes; the model needs more than {}", path, text_.size(), length_);
  }

  models::Batch batch(std::int64_t step) const override {
    std::seed_seq sequence{seed_, seed_ >> 32, static_cast<std::uint64_t>(step)};
    std::mt19937_64 random(sequence);
    std::vector<std::int64_t> inputs, targets;
    for (std::int64_t n = 0; n < batch_; ++n) {
      const std::size_t begin = random() % (text_.size() - static_cast<std::size_t>(length_));
      for (std::size_t t = begin; t < begin + static_cast<std::size_t>(length_); ++t) {
        inputs.push_back(static_cast<unsigned char>(text_[t]));
        targets.push_back(static_cast<unsigned char>(text_[t + 1]));
      }
    }
    return {{named(from_vector(inputs, {batch_, length_}), "tokens")},
            named(from_vector(targets, {batch_, length_}), "next_tokens"),
            batch_};
  }
  std::string describe() const override { return fmt::format("{} bytes of {}, a token each", text_.size(), path_); }

 private:
  std::string path_, text_;
  std::int64_t batch_, length_ = 0;
  std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<DataSource> open_data(const std::string& text, const models::Model& model, std::int64_t batch,
                                      std::uint64_t seed) {
  if (text == "random") return std::make_unique<RandomData>(model, batch, seed);
  const models::Batch example = model.random_batch(1, seed);
  if (text == "fashion-mnist") return std::make_unique<PictureData>(example, batch, seed);
  FERRY_CHECK(text.starts_with(kTextPrefix), InvalidArgument,
              "--data: '{}' is none of random, fashion-mnist and text:FILE", text);
  return std::make_unique<TextData>(text.substr(kTextPrefix.size()), example, batch, seed);
}

}  // namespace ferry::cli
