// A small model with every feature that the run time treats specially, and kernels for it that are
// simple enough to be right by inspection.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/backend.h"
#include "plan/plan.h"
#include "runtime/instance.h"

namespace tutti::toy {

const OpRegistry& ops();
const cpu::KernelRegistry& kernels();

// Inputs x: f32[b, t, h, 2] and text: f32[b, e] (invariant). In the prologue: context = 2 text + 1
// and positions = 0..t-1. Outputs:
//   z[b, t, h, d] = sum over t' <= t of (2 x[b, t', h, d] + 1 + t') + sum over e of context[b, e]
//   echo = x, and context itself.
// Over the mesh, tokens are split; the running sum is computed with split heads.
Plan make_plan(const std::string& mesh);

// The same without the mesh and without the run time.
std::vector<float> expected_z(const Tensor& x, const Tensor& text);

// Deterministic small whole numbers, so that sums are exact.
Tensor numbers(Dims dims, int seed);
std::vector<float> values(const Tensor& tensor);

// One graph alone, with the inputs and outputs that it has.
Plan plan_of(const std::string& mesh, const std::string& main, const std::string& prologue = "");

}  // namespace tutti::toy
