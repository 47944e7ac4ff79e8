// Neural networks: modules with named parameters, and the layers they are built of.
#pragma once

#include <ferry/nn_layers.h>
#include <ferry/nn_module.h>
#include <ferry/nn_sequence.h>
