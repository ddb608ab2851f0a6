// The memory that a request's tensors lie in: checked before ranks touch it, and lent for answers.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "plan/plan.h"
#include "runtime/backend.h"
#include "runtime/memory_place.h"

namespace tutti {

// Every name in `places` is one of `tensors`. `what`: "input" or "output".
Status check_names(const MemoryPlaces& places, const std::vector<PlanTensor>& tensors,
                   std::string_view what);

// The device that tensor `name` lies on; null for host memory.
const MemoryPlace* device_place(const MemoryPlaces& places, const std::string& name);

// INVALID_ARGUMENT for device memory that the backend does not take; nothing for host memory.
Status check_place(const MemoryPlaces& places, const std::string& name, std::string_view what,
                   const Tensor& tensor, Backend& backend);

// Memory for answers that comes back when the answer has gone: large blocks are costly to make, all
// the more where devices want them pinned. Thread-safe; blocks may outlive it.
class AnswerMemory {
 public:
  AnswerMemory();
  // From the backend where it has its own kind, otherwise ordinary.
  Result<Tensor> allocate(const TensorDesc& desc, Backend& backend);

  std::size_t idle_blocks() const;

 private:
  struct Pool;
  const std::shared_ptr<Pool> pool_;
};

}  // namespace tutti
