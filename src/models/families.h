// The families of models, one file each.
#pragma once

#include <span>

#include <ferry/models.h>

namespace ferry::models {

std::span<const Entry> mlps();
std::span<const Entry> lenets();
std::span<const Entry> vggs();
std::span<const Entry> resnets();
std::span<const Entry> densenets();
std::span<const Entry> inceptions();
std::span<const Entry> mobilenets();
std::span<const Entry> shufflenets();

}  // namespace ferry::models
