// Which function makes the CPU kernel of a core operator. One register_* function a kernel file.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/thread_pool.h"
#include "runtime/backend.h"

namespace tutti::cpu {

class Courier;

// What a CPU kernel may use of its rank. Outlives the rank's kernels.
struct CpuContext {
  ThreadPool* pool = nullptr;
  int rank = 0;
  std::vector<std::shared_ptr<Communicator>> communicators;  // by mesh axis
  std::vector<std::string> axes;                             // names, by mesh axis
  // Made by the first kernel that fetches while it computes.
  std::shared_ptr<Courier> courier = nullptr;
};

// The error starts with what is wrong; the caller puts the node in front.
using KernelFactory = Result<std::unique_ptr<Kernel>> (*)(const KernelSpec& spec,
                                                          CpuContext& context);

class KernelRegistry {
 public:
  void add(std::string_view op_type, KernelFactory factory);  // the type must be new
  KernelFactory find(std::string_view op_type) const;         // null when unknown

 private:
  std::map<std::string, KernelFactory, std::less<>> factories_;
};

// All kernels of this backend; calls every register_* function.
const KernelRegistry& kernel_registry();

}  // namespace tutti::cpu
