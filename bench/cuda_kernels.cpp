// Every way that the CUDA backend has for attention and convolutions, timed one by one.
// Usage: cuda_kernels attention|convolution [runs]. Prints a JSON object a line: shape, way,
// workspace, milliseconds (median of the runs, by events; ways take turns), TFLOP/s; or why there
// is no such way.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "backends/cuda/attention.h"
#include "backends/cuda/conv.h"
#include "backends/cuda/cudnn.h"
#include "base/half.h"

namespace tutti::cuda {
namespace {

int runs = 10;

// Random numbers, the same block again and again.
Result<std::unique_ptr<DeviceMemory>> random_memory(DType dtype, const Dims& dims) {
  static std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  const auto count = static_cast<std::size_t>(element_count(dims));
  const std::size_t width = dtype_size(dtype);
  const std::size_t block = std::min<std::size_t>(count, (std::size_t{1} << 22) + 1237);
  std::vector<std::byte> host(block * width);
  for (std::size_t i = 0; i < block; ++i) {
    const float x = normal(generator);
    const auto place = host.data() + i * width;
    if (dtype == DType::kFloat32) *reinterpret_cast<float*>(place) = x;
    if (dtype == DType::kFloat16) *reinterpret_cast<Half*>(place) = Half(x);
    if (dtype == DType::kBFloat16) *reinterpret_cast<BFloat16*>(place) = BFloat16(x);
  }
  TUTTI_ASSIGN_OR_RETURN(auto memory, DeviceMemory::allocate(0, count * width));
  for (std::size_t at = 0; at < count; at += block) {
    const std::size_t bytes = std::min(block, count - at) * width;
    TUTTI_CUDA(cudaMemcpy(static_cast<std::byte*>(memory->data()) + at * width, host.data(), bytes,
                          cudaMemcpyHostToDevice));
  }
  return memory;
}

struct TimedWay {
  std::string name;
  std::size_t workspace_bytes;
  std::function<Status()> run;
};

// Medians by way, which take turns: a card at its power limit changes its clock all the time.
std::vector<Result<double>> medians(cudaStream_t stream, const std::vector<TimedWay>& ways) {
  std::vector<std::vector<float>> times(ways.size());
  std::vector<Status> failures(ways.size());
  const auto time = [&](std::size_t i, bool is_kept) -> Status {
    TUTTI_ASSIGN_OR_RETURN(const auto begin, Event::create(true));
    TUTTI_ASSIGN_OR_RETURN(const auto end, Event::create(true));
    TUTTI_CUDA(cudaEventRecord(begin->get(), stream));
    TUTTI_RETURN_IF_ERROR(ways[i].run());
    TUTTI_CUDA(cudaEventRecord(end->get(), stream));
    TUTTI_RETURN_IF_ERROR(wait_for(end->get()));
    float milliseconds = 0;
    TUTTI_CUDA(cudaEventElapsedTime(&milliseconds, begin->get(), end->get()));
    if (is_kept) times[i].push_back(milliseconds);
    return {};
  };
  for (int turn = -2; turn < runs; ++turn) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
      if (failures[i].ok()) failures[i] = time(i, turn >= 0);
    }
  }
  std::vector<Result<double>> made;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    if (!failures[i].ok()) {
      made.emplace_back(failures[i]);
      continue;
    }
    std::sort(times[i].begin(), times[i].end());
    made.emplace_back(static_cast<double>(times[i][times[i].size() / 2]));
  }
  return made;
}

void print(const std::string& shape, const std::string& way, std::size_t workspace,
           const Result<double>& milliseconds, double flops) {
  if (!milliseconds.ok()) {
    std::printf("{\"shape\": \"%s\", \"way\": \"%s\", \"error\": \"%s\"}\n", shape.c_str(),
                way.c_str(), milliseconds.status().message().c_str());
  } else {
    std::printf(
        "{\"shape\": \"%s\", \"way\": \"%s\", \"workspace\": %zu, \"ms\": %.4f, \"tflops\": "
        "%.1f}\n",
        shape.c_str(), way.c_str(), workspace, *milliseconds, flops / *milliseconds * 1e-9);
  }
  std::fflush(stdout);
}

void print_all(const RankContext& context, const std::string& shape,
               const std::vector<TimedWay>& ways, double flops) {
  const std::vector<Result<double>> times = medians(context.stream, ways);
  for (std::size_t i = 0; i < ways.size(); ++i) {
    print(shape, ways[i].name, ways[i].workspace_bytes, times[i], flops);
  }
}

Status time_attention(RankContext& context, DType dtype, std::int64_t queries, std::int64_t keys,
                      std::int64_t heads, std::int64_t kv_heads, bool is_causal) {
  constexpr std::int64_t kSize = 128;
  AttentionProblem p;
  p.dtype = dtype;
  p.batch = 1;
  p.heads = heads;
  p.kv_heads = kv_heads;
  p.queries = queries;
  p.keys = keys;
  p.qk_size = p.v_size = kSize;
  p.q = p.out = {queries * heads * kSize, kSize, heads * kSize};  // bshd
  p.k = p.v = {keys * kv_heads * kSize, kSize, kv_heads * kSize};
  p.scale = 0.088388;
  p.is_causal = is_causal;
  const std::string shape = str_cat(dtype_name(dtype), " ", queries, "x", keys, " ", heads, "/",
                                    kv_heads, is_causal ? " causal" : "");
  TUTTI_ASSIGN_OR_RETURN(const auto q, random_memory(dtype, {queries, heads, kSize}));
  TUTTI_ASSIGN_OR_RETURN(const auto k, random_memory(dtype, {keys, kv_heads, kSize}));
  TUTTI_ASSIGN_OR_RETURN(const auto v, random_memory(dtype, {keys, kv_heads, kSize}));
  TUTTI_ASSIGN_OR_RETURN(const auto out, random_memory(dtype, {queries, heads, kSize}));
  std::vector<std::unique_ptr<Attention>> ways;
  auto found = make_cudnn_attentions(p, context);
  if (found.ok()) {
    ways = *std::move(found);
  } else {
    print(shape, "cudnn", 0, found.status(), 0);
  }
  const bool has_split = ways.size() > 1;
  auto ours = make_hopper_attention(p, context);
  if (ours.ok()) {
    ways.push_back(*std::move(ours));
  } else {
    print(shape, "ours for hopper", 0, ours.status(), 0);
  }
  const double pairs = static_cast<double>(queries) * static_cast<double>(keys) *
                       (is_causal ? 0.5 : 1) * static_cast<double>(heads);
  std::size_t workspace_bytes = 4 * static_cast<std::size_t>(heads * queries);
  for (const auto& way : ways) workspace_bytes = std::max(workspace_bytes, way->workspace_bytes());
  TUTTI_ASSIGN_OR_RETURN(const auto workspace, DeviceMemory::allocate(0, workspace_bytes));
  const AttentionAddresses at{q->data(), k->data(),   v->data(),        nullptr,
                              nullptr,   out->data(), workspace->data()};
  std::vector<TimedWay> timed;
  for (const auto& way : ways) {
    timed.push_back({way->name(), way->workspace_bytes(), [&way, &at] { return way->run(at); }});
  }
  // The second part of a split alone, on statistics that happen to be there.
  std::unique_ptr<AttentionTail> tail;
  if (has_split) {
    TUTTI_ASSIGN_OR_RETURN(tail, AttentionTail::create(p, keys % 128, context));
    timed.push_back({"the tail alone", 0, [&tail, &at] { return tail->run(at, at.workspace); }});
  }
  print_all(context, shape, timed, 4 * pairs * kSize);
  // By itself: it would let the card rest.
  TUTTI_ASSIGN_OR_RETURN(auto plain, make_plain_attention(p, context));
  print_all(context, shape, {{plain->name(), 0, [&] { return plain->run(at); }}},
            4 * pairs * kSize);
  return {};
}

struct ConvolutionCase {
  Dims x, w, strides, before, after;
  std::int64_t group = 1;
  bool is_transposed = false;
};

Status time_convolution(RankContext& context, DType dtype, const ConvolutionCase& c) {
  ConvolutionProblem p;
  p.dtype = dtype;
  p.is_transposed = c.is_transposed;
  p.has_bias = p.has_constant_weights = true;
  p.x = c.x;
  p.w = c.w;
  p.strides = c.strides;
  p.dilations.assign(c.strides.size(), 1);
  p.before = c.before;
  p.after = c.after;
  p.group = c.group;
  p.y = {c.x[0], c.is_transposed ? c.w[1] * c.group : c.w[0]};
  for (std::size_t d = 0; d < c.strides.size(); ++d) {
    const std::int64_t pads = c.before[d] + c.after[d];
    p.y.push_back(c.is_transposed ? (c.x[d + 2] - 1) * c.strides[d] + c.w[d + 2] - pads
                                  : (c.x[d + 2] + pads - c.w[d + 2]) / c.strides[d] + 1);
  }
  const std::string shape = str_cat(dtype_name(dtype), c.is_transposed ? " transposed " : " ", p.x,
                                    " w ", p.w, " stride ", p.strides, " pads ", p.before, p.after);
  TUTTI_ASSIGN_OR_RETURN(const auto x, random_memory(dtype, p.x));
  TUTTI_ASSIGN_OR_RETURN(const auto w, random_memory(dtype, p.w));
  TUTTI_ASSIGN_OR_RETURN(const auto bias, random_memory(dtype, {p.y[1]}));
  TUTTI_ASSIGN_OR_RETURN(const auto y, random_memory(dtype, p.y));
  TUTTI_ASSIGN_OR_RETURN(auto ways, make_cudnn_convolutions(p, "", context));
  TUTTI_ASSIGN_OR_RETURN(auto plain, make_plain_convolution(p, context));
  ways.push_back(std::move(plain));
  const double outputs = static_cast<double>(element_count(c.is_transposed ? p.x : p.y));
  const double products = static_cast<double>(element_count(p.w) / p.w[0]);
  std::size_t workspace_bytes = 0;
  for (const auto& way : ways) workspace_bytes = std::max(workspace_bytes, way->workspace_bytes());
  TUTTI_ASSIGN_OR_RETURN(const auto workspace, DeviceMemory::allocate(0, workspace_bytes));
  const ConvolutionAddresses at{x->data(), w->data(), bias->data(), y->data(), workspace->data()};
  std::vector<TimedWay> timed;
  for (const auto& way : ways) {
    timed.push_back({way->name(), way->workspace_bytes(), [&way, &at] { return way->run(at); }});
  }
  print_all(context, shape, timed, 2 * outputs * products);
  return {};
}

Status run(const std::string& kind) {
  cudaDeviceProp properties;
  TUTTI_CUDA(cudaGetDeviceProperties(&properties, 0));
  RankContext context;
  context.arch = 10 * properties.major + properties.minor;
  context.multiprocessors = properties.multiProcessorCount;
  context.shared_bytes = properties.sharedMemPerBlockOptin;
  TUTTI_CUDA(cudaStreamCreate(&context.stream));
  TUTTI_ASSIGN_OR_RETURN(const auto compiler, KernelCompiler::create());
  context.compiler = compiler.get();
  const auto cudnn = Cudnn::create(0, context.arch);
  if (cudnn.ok()) context.cudnn = cudnn->get();
  std::printf("{\"card\": \"%s\", \"cudnn\": \"%s\"}\n", properties.name,
              cudnn.ok() ? (*cudnn)->version().c_str() : cudnn.status().message().c_str());
  if (kind == "attention") {
    constexpr auto kBf16 = DType::kBFloat16;
    for (const auto& [queries, keys, heads, kv_heads] :
         {std::array<std::int64_t, 4>{44160, 47152, 32, 8},
          {44160, 47104, 32, 8},
          {44160, 47152, 16, 4},
          {44160, 47152, 8, 2},
          {44160, 47152, 4, 1},
          {44160, 47104, 4, 1},
          {16384, 16400, 32, 8},
          {8192, 8192, 64, 8},
          {8192, 8200, 64, 8},
          {4096, 4196, 32, 8},
          {2992, 2992, 32, 8}}) {
      TUTTI_RETURN_IF_ERROR(time_attention(context, kBf16, queries, keys, heads, kv_heads, false));
    }
    TUTTI_RETURN_IF_ERROR(time_attention(context, kBf16, 2992, 2992, 32, 8, true));
    return time_attention(context, DType::kFloat16, 8192, 8200, 64, 8, false);
  }
  const std::vector<ConvolutionCase> cases = {
      {{1, 512, 90, 160}, {512, 512, 3, 3}, {1, 1}, {1, 1}, {1, 1}},
      {{1, 128, 480, 640}, {128, 128, 3, 3}, {1, 1}, {1, 1}, {1, 1}},
      {{1, 128, 480, 640}, {3, 128, 3, 3}, {1, 1}, {1, 1}, {1, 1}},
      {{1, 96, 5, 360, 640}, {96, 96, 3, 3, 3}, {1, 1, 1}, {2, 1, 1}, {0, 1, 1}},
      {{1, 192, 9, 180, 320}, {192, 192, 3, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
      {{1, 256, 180, 320}, {256, 128, 4, 4}, {2, 2}, {1, 1}, {1, 1}, 1, true},
      {{1, 256, 180, 320}, {256, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 256}};
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (const ConvolutionCase& c : cases) {
      TUTTI_RETURN_IF_ERROR(time_convolution(context, dtype, c));
    }
  }
  return {};
}

}  // namespace
}  // namespace tutti::cuda

int main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "attention";
  if (argc > 2) tutti::cuda::runs = std::max(std::atoi(argv[2]), 1);
  const tutti::Status status = tutti::cuda::run(kind);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return status.ok() ? 0 : 1;
}
