// Of a build without the headers of cuDNN.
#include "backends/cuda/cudnn.h"

namespace tutti::cuda {

Result<std::unique_ptr<Cudnn>> Cudnn::create(int /*device*/, int /*arch*/) {
  return unimplemented("cuda: built without cuDNN's headers");
}

}  // namespace tutti::cuda
