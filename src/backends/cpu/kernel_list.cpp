#include "src/backends/cpu/kernel_list.h"

#include "src/backends/cpu/activations.h"
#include "src/backends/cpu/attention.h"
#include "src/backends/cpu/convolution.h"
#include "src/backends/cpu/cpu_driver.h"
#include "src/backends/cpu/indexing.h"
#include "src/backends/cpu/losses.h"
#include "src/backends/cpu/normalization.h"
#include "src/backends/cpu/optimizer.h"
#include "src/backends/cpu/recurrent.h"

namespace ferry {
namespace cpu_backend {
namespace {

constexpr KernelEntry kKernels[] = {
    // conv, matmul, pooling, batch norm
    {"matmul", matmul},
    {"linear", linear},
    {"conv2d", conv2d},
    {"conv2d_backward_input", conv2d_backward_input},
    {"conv2d_backward_weight", conv2d_backward_weight},
    {"max_pool2d", max_pool2d},
    {"max_pool2d_backward", max_pool2d_backward},
    {"avg_pool2d", avg_pool2d},
    {"avg_pool2d_backward", avg_pool2d_backward},
    {"batch_norm", batch_norm},
    {"batch_norm_apply", batch_norm_apply},
    {"batch_norm_backward", batch_norm_backward},
    {"batch_norm_inference", batch_norm_inference},
    {"running_average_", running_average_},
    {"conv_transpose2d", conv_transpose2d},
    {"upsample2d", upsample2d},
    {"upsample2d_backward", upsample2d_backward},
    {"adaptive_avg_pool2d", adaptive_avg_pool2d},
    {"adaptive_avg_pool2d_backward", adaptive_avg_pool2d_backward},

    // attention
    {"scaled_dot_product_attention", scaled_dot_product_attention},
    {"scaled_dot_product_attention_backward", scaled_dot_product_attention_backward},

    // recurrent layers
    {"lstm_layer", lstm_layer},
    {"lstm_layer_backward", lstm_layer_backward},
    {"gru_layer", gru_layer},
    {"gru_layer_backward", gru_layer_backward},

    // creation and movement
    {"fill", fill},
    {"fill_", fill},
    {"arange", arange},
    {"copy", copy},
    {"copy_", copy_in_place},
    {"crop", slice},
    {"shape", shape},
    {"slice", slice},
    {"slice_backward", slice_backward},
    {"concat", concat},
    {"gather", gather},
    {"gather_backward", gather_backward},
    {"index_select", index_select},
    {"index_select_backward", index_select_backward},
    {"where", where},
    {"masked_fill", masked_fill},
    {"pad", pad},
    {"pad_backward", pad_backward},
    {"uniform", uniform},
    {"normal", normal},

    // elementwise
    {"add", add},
    {"sub", sub},
    {"mul", mul},
    {"div", div},
    {"maximum", maximum},
    {"minimum", minimum},
    {"square_error", square_error},
    {"square_error_backward", square_error_backward},
    {"square_error_scalar", square_error_scalar},
    {"square_error_scalar_backward", square_error_scalar_backward},
    {"equal", equal},
    {"greater", greater},
    {"less", less},
    {"relu_backward", relu_backward},
    {"tanh_backward", tanh_backward},
    {"sigmoid_backward", sigmoid_backward},
    {"abs_backward", abs_backward},
    {"neg", neg},
    {"abs", abs},
    {"square", square},
    {"relu", relu},
    {"exp", exp},
    {"log", log},
    {"sqrt", sqrt},
    {"tanh", tanh},
    {"sigmoid", sigmoid},
    {"add_scalar", add_scalar},
    {"mul_scalar", mul_scalar},
    {"rsub_scalar", rsub_scalar},
    {"rdiv_scalar", rdiv_scalar},
    {"pow_scalar", pow_scalar},

    // activations
    {"softmax", softmax},
    {"softmax_backward", softmax_backward},
    {"log_softmax", log_softmax},
    {"log_softmax_backward", log_softmax_backward},
    {"gelu", gelu},
    {"gelu_backward", gelu_backward},
    {"silu", silu},
    {"silu_backward", silu_backward},
    {"leaky_relu", leaky_relu},
    {"leaky_relu_backward", leaky_relu_backward},
    {"dropout", dropout},

    // reduction
    {"sum", sum},
    {"mean", mean},
    {"max", max},
    {"argmax", argmax},

    // normalisation and losses
    {"layer_norm", layer_norm},
    {"layer_norm_backward", layer_norm_backward},
    {"group_norm", group_norm},
    {"group_norm_backward", group_norm_backward},
    {"l2_normalize", l2_normalize},
    {"l2_normalize_backward", l2_normalize_backward},
    {"cross_entropy", cross_entropy},
    {"cross_entropy_backward", cross_entropy_backward},
    {"nll_loss", nll_loss},
    {"nll_loss_backward", nll_loss_backward},
    {"binary_cross_entropy_with_logits", binary_cross_entropy},
    {"binary_cross_entropy_with_logits_backward", binary_cross_entropy_backward},

    // embedding and sparse gradients
    {"embedding", embedding},
    {"embedding_dense_backward", embedding_dense_backward},
    {"embedding_bag", embedding_bag},
    {"embedding_bag_backward", embedding_bag_backward},
    {"coalesce", coalesce},
    {"scatter_add_rows_", scatter_add_rows_},

    // optimizers
    {"sgd_", sgd_},
    {"sgd_rows_", sgd_rows_},
    {"adam_", adam_},
    {"adam_rows_", adam_rows_},
    {"adagrad_", adagrad_},
    {"adagrad_rows_", adagrad_rows_},
    {"scale_", scale_},
    {"unscale_", unscale_},
    {"clamp_", clamp_},
    {"square_sum", square_sum},
};

}  // namespace
}  // namespace cpu_backend

std::span<const KernelEntry> cpu_kernels() { return cpu_backend::kKernels; }

}  // namespace ferry
