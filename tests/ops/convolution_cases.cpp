#include "tests/ops/op_case.h"

namespace ferry::test {
namespace {

void add_transposed(std::vector<OpCase>& cases) {
  struct Convolution {
    Shape x, weight;
    ConvTranspose2dOptions options;
  };
  const std::vector<Convolution> convolutions = {
      {{1, 1, 1, 1}, {1, 1, 1, 1}, {}},
      {{2, 4, 5, 6}, {4, 3, 3, 3}, {}},
      {{2, 4, 5, 6}, {4, 3, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}, .output_padding = {1, 1}}},
      {{1, 6, 4, 5}, {6, 4, 3, 2}, {.stride = {2, 3}, .padding = {1, 0}, .output_padding = {0, 2}}},
      {{1, 3, 6, 5}, {3, 2, 3, 3}, {.padding = {2, 2}, .output_padding = {1, 1}, .dilation = {2, 2}}},
      {{2, 6, 4, 4}, {6, 2, 4, 4}, {.stride = {2, 2}, .padding = {1, 1}, .groups = 2}},
      {{1, 3, 5, 5}, {3, 1, 4, 4}, {.stride = {2, 2}, .padding = {1, 1}, .groups = 3}},
      {{2, 7, 4, 4}, {7, 5, 1, 1}, {}},
      {{1, 32, 6, 6}, {32, 32, 3, 3}, {.padding = {1, 1}}},
      {{0, 4, 5, 6}, {4, 3, 3, 3}, {}},
  };
  for (const Convolution& each : convolutions) {
    const ConvTranspose2dOptions options = each.options;
    const std::string text = to_string(each.x) + to_string(each.weight) + "s" + std::to_string(options.stride[0]);
    cases.push_back({"conv_transpose2d",
                     text,
                     {{each.x}, {each.weight}, {{each.weight[1] * options.groups}}},
                     [options](const Tensors& t) { return conv_transpose2d(t[0], t[1], t[2], options); },
                     [options](const Arrays& t) { return conv_transpose2d(t[0], t[1], &t[2], options); },
                     floats(),
                     3,
                     100});
    cases.push_back({"conv_transpose2d",
                     text + "no_bias",
                     {{each.x}, {each.weight}},
                     [options](const Tensors& t) { return conv_transpose2d(t[0], t[1], {}, options); },
                     [options](const Arrays& t) { return conv_transpose2d(t[0], t[1], nullptr, options); },
                     floats(),
                     2,
                     100});
  }
}

void add_upsampling(std::vector<OpCase>& cases) {
  struct Sampling {
    Shape x;
    std::array<std::int64_t, 2> size;
    std::array<double, 2> scale;
  };
  const std::vector<Sampling> samplings = {{{2, 3, 4, 5}, {0, 0}, {2, 2}}, {{1, 2, 3, 4}, {0, 0}, {1.5, 2.5}},
                                           {{2, 3, 4, 5}, {7, 9}, {}},     {{2, 3, 6, 7}, {3, 2}, {}},
                                           {{1, 70, 3, 3}, {6, 5}, {}},    {{2, 1, 1, 1}, {3, 2}, {}},
                                           {{1, 2, 5, 4}, {1, 1}, {}},     {{2, 3, 4, 5}, {4, 5}, {}},
                                           {{0, 3, 4, 5}, {2, 2}, {}},     {{1, 2, 9, 11}, {0, 0}, {0.4, 0.3}}};
  for (const Sampling& each : samplings) {
    for (const auto& [mode, corners] :
         {std::pair{UpsampleMode::nearest, false}, {UpsampleMode::bilinear, false}, {UpsampleMode::bilinear, true}}) {
      const Upsample2dOptions options{.size = each.size, .scale = each.scale, .mode = mode, .align_corners = corners};
      cases.push_back({"upsample2d",
                       to_string(each.x) + std::to_string(each.size[0]) + (corners ? "corners" : "") +
                           (mode == UpsampleMode::nearest ? "nearest" : "bilinear"),
                       {{each.x}},
                       [options](const Tensors& t) { return upsample2d(t[0], options); },
                       [options](const Arrays& t) { return upsample2d(t[0], options); },
                       floats(),
                       1});
    }
  }
}

void add_adaptive_pools(std::vector<OpCase>& cases) {
  const std::vector<std::pair<Shape, std::array<std::int64_t, 2>>> pools = {
      {{2, 3, 7, 7}, {1, 1}}, {{2, 70, 5, 6}, {1, 1}}, {{2, 3, 12, 8}, {3, 2}},  {{1, 3, 7, 5}, {3, 4}},
      {{1, 2, 3, 4}, {5, 7}}, {{1, 1, 1, 1}, {1, 1}},  {{2, 2, 70, 80}, {1, 1}}, {{0, 2, 4, 4}, {2, 2}}};
  for (const auto& [x, output] : pools) {
    cases.push_back({"adaptive_avg_pool2d",
                     to_string(x) + std::to_string(output[0]) + "x" + std::to_string(output[1]),
                     {{x}},
                     [size = output](const Tensors& t) { return adaptive_avg_pool2d(t[0], size); },
                     [size = output](const Arrays& t) { return adaptive_avg_pool2d(t[0], size); },
                     floats(),
                     1});
  }
}

}  // namespace

std::vector<OpCase> convolution_cases() {
  std::vector<OpCase> cases;
  add_transposed(cases);
  add_upsampling(cases);
  add_adaptive_pools(cases);
  return cases;
}

}  // namespace ferry::test
