#include "backends/cuda/cudnn.h"

namespace tutti::cuda {

Result<cudnnContext*> cudnn_handle(RankContext& context) {
  if (context.cudnn_handle == nullptr) {
    TUTTI_ASSIGN_OR_RETURN(context.cudnn_handle, context.cudnn->create_handle(context.stream));
  }
  return context.cudnn_handle->get();
}

}  // namespace tutti::cuda
