// Small ONNX models, in protobuf's text form, that reach what models can ask of us: branches,
// functions, annotations, external data, attention, convolutions, constants to fold.
#pragma once

#include <string>
#include <vector>

namespace tutti::fuzz {

// Serialised. What lies outside is in files `weights.bin` of kWeightsBytes bytes.
std::vector<std::string> sample_models();
inline constexpr std::size_t kWeightsBytes = 4096;

}  // namespace tutti::fuzz
