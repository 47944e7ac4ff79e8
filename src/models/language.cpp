#include "src/models/language.h"

#include <ferry/init.h>
#include <ferry/ops.h>

namespace ferry::models {

Tensor token_loss(const Tensor& logits, const Tensor& labels) { return softmax_cross_entropy(logits, flatten(labels)); }

void normal_linears(const nn::Module& module, double deviation) {
  for (const nn::NamedModule& each : module.modules()) {
    const auto* layer = dynamic_cast<const nn::Linear*>(each.module.get());
    if (layer == nullptr) continue;
    init::normal(layer->weight, 0, deviation);
    if (layer->bias) init::constant(layer->bias, 0);
  }
}

}  // namespace ferry::models
