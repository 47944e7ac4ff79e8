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
std::span<const Entry> unets();
std::span<const Entry> lstms();
std::span<const Entry> tree_lstms();
std::span<const Entry> transformers();
std::span<const Entry> berts();
std::span<const Entry> gpt2s();
std::span<const Entry> dlrms();
std::span<const Entry> word2vecs();

}  // namespace ferry::models
