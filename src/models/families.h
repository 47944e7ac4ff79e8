// The families of models, one file each.
#pragma once

#include <span>

#include <ferry/models.h>

namespace ferry::models {

std::span<const Entry> resnets();

}  // namespace ferry::models
