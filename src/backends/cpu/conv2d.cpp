#include "src/backends/cpu/conv2d.h"

#include <cstring>
#include <string_view>
#include <vector>

#include "src/backends/cpu/dnn.h"
#include "src/backends/cpu/float_views.h"
#include "src/backends/cpu/kernel_list.h"

namespace ferry::cpu_backend {
namespace {

using dnn::Direction;
using dnnl::memory;

constexpr std::uint32_t kConvKey = 0x636f6e76;
// From this many channels on, the transforms and reorders that Winograd's algorithm needs cost less than it saves.
constexpr std::int64_t kWinogradChannels = 32;

memory::dims dims_of(const Dims& dims) { return {dims.begin(), dims.end()}; }

// Up to this many channels, oneDNN's blocked code for the input's gradient works on blocks that are mostly empty.
constexpr std::int64_t kFewChannels = 4;
constexpr std::int64_t kLargeKernel = 9;

// What a convolution is made from, with regular strides. Descriptions of absent arguments are empty.
struct Description {
  Conv2dProduct product;
  bool depthwise;
  memory::desc x, w, bias, y;
  memory::dims stride, dilation, padding, padding_end;
};

memory::desc describe_image(std::string_view op, const TensorView& image) {
  return {dims_of(image.shape), dnn::data_type(image.dtype), dims_of(image_strides(op, image))};
}

memory::desc describe_weight(std::string_view op, const TensorView& w, std::int64_t groups) {
  const Strides strides = image_strides(op, w);
  if (groups == 1) return {dims_of(w.shape), dnn::data_type(w.dtype), dims_of(strides)};
  const std::int64_t out = w.shape[0] / groups;
  return {{groups, out, w.shape[1], w.shape[2], w.shape[3]},
          dnn::data_type(w.dtype),
          memory::dims{out * strides[0], strides[0], strides[1], strides[2], strides[3]}};
}

// The padding behind the last element that gives the output its extent; negative where the stride leaves a rest.
memory::dims padding_end(const Conv2dArguments& p) {
  const ops::Conv2dAttributes& a = p.attributes;
  memory::dims result(2);
  for (int i = 0; i < 2; ++i) {
    const std::int64_t window = (p.w.shape[i + 2] - 1) * a.dilation[i] + 1;
    result[static_cast<std::size_t>(i)] =
        (p.y.shape[i + 2] - 1) * a.stride[i] + window - p.x.shape[i + 2] - a.padding[i];
  }
  return result;
}

Description describe(std::string_view op, const Conv2dArguments& p) {
  const ops::Conv2dAttributes& a = p.attributes;
  Description d{.product = p.product,
                .depthwise = is_depthwise(p),
                .x = describe_image(op, p.x),
                .w = describe_weight(op, p.w, a.groups),
                .bias = {},
                .y = describe_image(op, p.y),
                .stride = {a.stride[0], a.stride[1]},
                .dilation = {a.dilation[0] - 1, a.dilation[1] - 1},
                .padding = {a.padding[0], a.padding[1]},
                .padding_end = padding_end(p)};
  if (p.bias.given) d.bias = {dims_of(p.bias.shape), dnn::data_type(p.bias.dtype), memory::format_tag::a};
  return d;
}

// The same with layouts left to the primitive.
memory::desc any_layout(const memory::desc& desc) { return {desc.dims(), desc.data_type(), memory::format_tag::any}; }
memory::desc channels_last(const memory::desc& desc) {
  return {desc.dims(), desc.data_type(), memory::format_tag::nhwc};
}
memory::desc row_major(const memory::desc& desc) { return {desc.dims(), desc.data_type(), memory::format_tag::nchw}; }

// Whether oneDNN treats groups of one channel as such. Where it does not, it works on blocks of 16 channels a group.
template <class PrimitiveDescription>
bool has_depthwise_code(const PrimitiveDescription& pd) {
  return std::string_view(pd.impl_info_str()).find("dw") != std::string_view::npos;
}

dnnl::convolution_forward::primitive_desc forward_hint(const Description& d, dnnl::algorithm algorithm) {
  return {{dnnl::prop_kind::forward_training, algorithm, d.x, d.w, d.bias, d.y, d.stride, d.dilation, d.padding,
           d.padding_end},
          dnn::user_scratchpad(),
          dnn::engine()};
}

dnn::Plan make_forward(const Description& given, const Description& d, dnnl::algorithm algorithm) {
  const auto pd = forward_hint(d, algorithm);
  std::vector<dnn::Plan::Argument> arguments = {{DNNL_ARG_SRC, Direction::in, given.x, pd.src_desc()},
                                                {DNNL_ARG_WEIGHTS, Direction::in, given.w, pd.weights_desc()},
                                                {DNNL_ARG_DST, Direction::out, given.y, pd.dst_desc()}};
  if (given.bias.get_size() > 0) arguments.push_back({DNNL_ARG_BIAS, Direction::in, given.bias, pd.bias_desc()});
  return {dnnl::convolution_forward(pd), pd.scratchpad_desc(), arguments};
}

dnn::Plan make_backward_input(const Description& given, const Description& d, dnnl::algorithm algorithm) {
  const dnnl::convolution_backward_data::primitive_desc pd(
      {algorithm, d.x, d.w, d.y, d.stride, d.dilation, d.padding, d.padding_end}, dnn::user_scratchpad(), dnn::engine(),
      forward_hint(d, algorithm));
  if (d.depthwise && !has_depthwise_code(pd)) return {};
  const std::vector<dnn::Plan::Argument> arguments = {{DNNL_ARG_DIFF_SRC, Direction::out, given.x, pd.diff_src_desc()},
                                                      {DNNL_ARG_WEIGHTS, Direction::in, given.w, pd.weights_desc()},
                                                      {DNNL_ARG_DIFF_DST, Direction::in, given.y, pd.diff_dst_desc()}};
  return {dnnl::convolution_backward_data(pd), pd.scratchpad_desc(), arguments};
}

dnn::Plan make_backward_weight(const Description& given, const Description& d, dnnl::algorithm algorithm) {
  const dnnl::convolution_backward_weights::primitive_desc pd(
      {algorithm, d.x, d.w, d.bias, d.y, d.stride, d.dilation, d.padding, d.padding_end}, dnn::user_scratchpad(),
      dnn::engine(), forward_hint(d, algorithm));
  if (d.depthwise && !has_depthwise_code(pd)) return {};
  std::vector<dnn::Plan::Argument> arguments = {
      {DNNL_ARG_SRC, Direction::in, given.x, pd.src_desc()},
      {DNNL_ARG_DIFF_WEIGHTS, Direction::out, given.w, pd.diff_weights_desc()},
      {DNNL_ARG_DIFF_DST, Direction::in, given.y, pd.diff_dst_desc()}};
  if (given.bias.get_size() > 0) {
    arguments.push_back({DNNL_ARG_DIFF_BIAS, Direction::out, given.bias, pd.diff_bias_desc()});
  }
  return {dnnl::convolution_backward_weights(pd), pd.scratchpad_desc(), arguments};
}

dnn::Plan make_product(const Description& given, const Description& d, dnnl::algorithm algorithm) {
  switch (d.product) {
    case Conv2dProduct::forward:
      return make_forward(given, d, algorithm);
    case Conv2dProduct::backward_input:
      return make_backward_input(given, d, algorithm);
    case Conv2dProduct::backward_weight:
      return make_backward_weight(given, d, algorithm);
  }
  return {};
}

bool pays_for_winograd(const Conv2dArguments& p) {
  return p.attributes.groups == 1 && p.x.shape[1] >= kWinogradChannels && p.y.shape[1] >= kWinogradChannels;
}

// Multiplying and summing up overlapping patches is then the better way, for which channels must not be innermost.
bool pays_for_patches(const Conv2dArguments& p) {
  return p.product == Conv2dProduct::backward_input && p.attributes.groups == 1 && p.x.shape[1] <= kFewChannels &&
         p.w.shape[2] * p.w.shape[3] >= kLargeKernel;
}

dnn::Plan make_conv2d(std::string_view op, const Conv2dArguments& p) {
  const Description given = describe(op, p);
  Description wanted = given;
  wanted.w = any_layout(given.w);
  if (pays_for_winograd(p)) {
    wanted.x = any_layout(given.x);
    wanted.y = any_layout(given.y);
    dnn::Plan plan =
        dnn::make_plan(op, [&] { return make_product(given, wanted, dnnl::algorithm::convolution_winograd); });
    if (plan.supported()) return plan;
  }
  const bool patches = pays_for_patches(p);
  wanted.x = patches ? row_major(given.x) : channels_last(given.x);
  wanted.y = patches ? row_major(given.y) : channels_last(given.y);
  return dnn::make_plan(op, [&] { return make_product(given, wanted, dnnl::algorithm::convolution_direct); });
}

double flops(const Conv2dArguments& p) {
  return 2.0 * static_cast<double>(p.y.numel()) * static_cast<double>(p.w.numel() / p.w.shape[0]);
}

// False where oneDNN has no primitive for the dtype on this CPU, or none that is made for depthwise convolutions.
bool conv2d_with_dnn(std::string_view op, const Conv2dArguments& p) {
  const dnn::TeamScope team(flops(p));
  const ops::Conv2dAttributes& a = p.attributes;
  dnn::Key key(kConvKey);
  key.add(static_cast<std::int64_t>(p.product))
      .add(p.x)
      .add(p.w)
      .add(p.y)
      .add(p.bias.given ? static_cast<std::int64_t>(p.bias.dtype) : -1);
  key.add(a.stride).add(a.padding).add(a.dilation).add(a.groups);
  dnn::Plan& plan = dnn::plans().get(key, [&] { return make_conv2d(op, p); });
  if (!plan.supported()) return false;
  void* const data[] = {p.x.data, p.w.data, p.y.data, p.bias.data};
  plan.run(op, std::span(data).first(p.bias.given ? 4 : 3));
  return true;
}

void run_conv2d(const KernelContext& context, Kernel self, const Conv2dArguments& p) {
  const DType dtype = context.out().dtype;
  FERRY_CHECK(is_floating(dtype), InvalidArgument, "{}: there is no kernel for {}", context.op, name_of(dtype));
  if (dtype == DType::f64) return conv2d_f64(p);
  if (dtype == DType::f16) return run_in_f32(context, self);
  if (conv2d_with_dnn(context.op, p)) return;
  const bool own_loops = is_depthwise(p) && p.product != Conv2dProduct::forward;
  own_loops ? conv2d_depthwise(context.op, p) : run_in_f32(context, self);
}

TensorView optional(std::span<const TensorView> views, std::size_t i) {
  return i < views.size() ? views[i] : TensorView{};
}

void fill_zero(const TensorView& view) {
  if (view.given && view.numel() > 0) {
    std::memset(view.data, 0, static_cast<std::size_t>(view.numel() * size_of(view.dtype)));
  }
}

}  // namespace

void conv2d(const KernelContext& context) {
  if (context.out().numel() == 0) return;
  run_conv2d(context, conv2d,
             {.product = Conv2dProduct::forward,
              .x = context.in(0),
              .w = context.in(1),
              .bias = optional(context.inputs, 2),
              .y = context.out(),
              .attributes = context.attributes.as<ops::Conv2dAttributes>()});
}

void conv2d_backward_input(const KernelContext& context) {
  if (context.out().numel() == 0) return;
  if (context.in(0).numel() == 0) return fill_zero(context.out());
  run_conv2d(context, conv2d_backward_input,
             {.product = Conv2dProduct::backward_input,
              .x = context.out(),
              .w = context.in(1),
              .bias = {},
              .y = context.in(0),
              .attributes = context.attributes.as<ops::Conv2dAttributes>()});
}

void conv2d_backward_weight(const KernelContext& context) {
  if (context.in(0).numel() == 0) {
    fill_zero(context.out(0));
    return fill_zero(optional(context.outputs, 1));
  }
  run_conv2d(context, conv2d_backward_weight,
             {.product = Conv2dProduct::backward_weight,
              .x = context.in(1),
              .w = context.out(0),
              .bias = optional(context.outputs, 1),
              .y = context.in(0),
              .attributes = context.attributes.as<ops::Conv2dAttributes>()});
}

}  // namespace ferry::cpu_backend
