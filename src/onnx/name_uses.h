// Which value names a graph or a function body reads, branches included.
#pragma once

#include <string>
#include <unordered_set>

namespace onnx {
class FunctionProto;
class GraphProto;
}  // namespace onnx

namespace tutti {

void collect_uses(const onnx::GraphProto& graph, std::unordered_set<std::string>* names);
void collect_uses(const onnx::FunctionProto& function, std::unordered_set<std::string>* names);

}  // namespace tutti
