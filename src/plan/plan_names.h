// Names that mean something in a plan file.
#pragma once

namespace tutti {

inline constexpr const char* kTuttiDomain = "ai.tutti";

// The node that stands for the hoisted graph, and its attribute that holds it.
inline constexpr const char* kPrologueType = "Prologue";
inline constexpr const char* kPrologueBody = "body";

// ONNX wants a name of every graph; this one stands for none.
inline constexpr const char* kNoGraphName = "unnamed";

// Metadata of an output whose outside name differs from its value's.
inline constexpr const char* kOutputNameKey = "tutti.output_name";

}  // namespace tutti
