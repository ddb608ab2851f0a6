#include "runtime/rank_constants.h"

#include <gtest/gtest.h>

#include <deque>
#include <numeric>

#include "graph/mesh.h"
#include "graph/printer.h"
#include "graph/rank_constant.h"
#include "ops/lowering.h"

namespace tutti {
namespace {

Tensor counted(Dims dims) {
  Tensor tensor = *Tensor::allocate(DType::kFloat32, std::move(dims));
  float* data = tensor.mutable_data_as<float>();
  std::iota(data, data + tensor.element_count(), 0.0F);
  return tensor;
}

std::vector<float> numbers(const Tensor& tensor) {
  return {tensor.data_as<float>(), tensor.data_as<float>() + tensor.element_count()};
}

TEST(CutPiece, HoldsTheUnitsOfTheRank) {
  const Tensor whole = counted({2, 6});
  // Three units of two columns over two ranks.
  const auto first = cut_piece(whole, {1, 3, 1}, 2, 0);
  const auto second = cut_piece(whole, {1, 3, 1}, 2, 1);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->dims(), (Dims{2, 4}));
  EXPECT_EQ(numbers(*first), (std::vector<float>{0, 1, 2, 3, 6, 7, 8, 9}));
  EXPECT_EQ(numbers(*second), (std::vector<float>{4, 5, 10, 11}));
}

TEST(CutPiece, RepeatsUnitsThatStandSeveralTimes) {
  // Two units, each twice, over three ranks: [a a], [b], [b].
  const Tensor whole = counted({2, 2});
  EXPECT_EQ(numbers(*cut_piece(whole, {0, 2, 2}, 3, 0)), (std::vector<float>{0, 1, 0, 1}));
  EXPECT_EQ(numbers(*cut_piece(whole, {0, 2, 2}, 3, 1)), (std::vector<float>{2, 3}));
  EXPECT_EQ(numbers(*cut_piece(whole, {0, 2, 2}, 3, 2)), (std::vector<float>{2, 3}));
}

TEST(CutPiece, TakesAPieceOfEachSegment) {
  const Tensor whole = counted({1, 7});
  const PieceCut cut{1, 7, 1, {4, 3}};
  EXPECT_EQ(numbers(*cut_piece(whole, cut, 2, 0)), (std::vector<float>{0, 1, 4, 5}));
  EXPECT_EQ(numbers(*cut_piece(whole, cut, 2, 1)), (std::vector<float>{2, 3, 6}));
}

TEST(CutPiece, CutsSegmentsBetweenTheirGrains) {
  const Tensor whole = counted({1, 9});
  const PieceCut cut{1, 9, 1, {6, 3}, {2, 1}};
  EXPECT_EQ(numbers(*cut_piece(whole, cut, 2, 0)), (std::vector<float>{0, 1, 2, 3, 6, 7}));
  EXPECT_EQ(numbers(*cut_piece(whole, cut, 2, 1)), (std::vector<float>{4, 5, 8}));
}

TEST(CutPiece, MayBeEmpty) {
  const auto piece = cut_piece(counted({2, 3}), {0, 2, 1}, 4, 3);
  ASSERT_TRUE(piece.ok());
  EXPECT_EQ(piece->dims(), (Dims{0, 3}));
}

TEST(CutPiece, ContiguousPiecesShareTheMemoryOfTheWhole) {
  const Tensor whole = counted({8, 16});
  const auto piece = cut_piece(whole, {0, 8, 1}, 4, 2);
  ASSERT_TRUE(piece.ok());
  EXPECT_EQ(piece->data(), whole.data() + 4 * 16 * sizeof(float));
}

class RankConstantsTest : public ::testing::Test {
 protected:
  RankConstantsTest() {
    LoweringRegistry lowerings;
    register_all_ops(&ops_, &lowerings);
    graph_ = *parse_graph(R"(graph @g (%x: f32[4, 8]) {
      %w = constant f32[8, 8] data
      %a = ShardSlice(%w) {axis = "tp", ranks = 2, dim = 1, units = dims[8]}
      %b = ShardSlice(%a) {axis = "cp", ranks = 2, dim = 0, units = dims[8]}
      %c = ShardSlice(%x) {axis = "tp", ranks = 2, dim = 1, units = dims[8]}
      return %b, %c
    })",
                          ops_);
  }

  OpRegistry ops_;
  std::unique_ptr<Graph> graph_;
  SymbolMap symbols_ = {{"rank.tp", 1}, {"rank.cp", 0}};
};

TEST_F(RankConstantsTest, KnowsPiecesOfConstantsFromOtherValues) {
  EXPECT_EQ(sliced_constant(*graph_->find_value("b")), graph_->find_value("w"));
  EXPECT_EQ(sliced_constant(*graph_->find_value("w")), graph_->find_value("w"));
  EXPECT_EQ(sliced_constant(*graph_->find_value("c")), nullptr);
  EXPECT_EQ(sliced_constant(*graph_->find_value("x")), nullptr);
}

TEST_F(RankConstantsTest, CutsAlongSeveralAxesAndSharesWhatItCut) {
  RankConstants constants;
  const auto first = constants.get(*graph_->find_value("b"), symbols_);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ((*first)->dims(), (Dims{4, 4}));
  const auto again = constants.get(*graph_->find_value("b"), symbols_);
  EXPECT_EQ(first->get(), again->get());
  EXPECT_EQ(constants.bytes(), 4 * 4 * sizeof(float));  // counted once
}

TEST_F(RankConstantsTest, LetsPiecesGoWhenNobodyHoldsThem) {
  RankConstants constants;
  std::weak_ptr<const Tensor> piece = *constants.get(*graph_->find_value("a"), symbols_);
  EXPECT_TRUE(piece.expired());
}

// Memory that is not the host's: counts what it is given to keep.
class CountingDevice final : public RankDevice {
 public:
  Result<std::unique_ptr<Kernel>> make_kernel(const KernelSpec&) override {
    return unimplemented("no kernels");
  }
  Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t) override {
    return unimplemented("no buffers");
  }
  Result<const void*> place_constant(const Tensor& tensor) override {
    placed.push_back(numbers(tensor));
    return static_cast<const void*>(&placed.back());
  }
  Status upload(void*, const void*, std::size_t) override { return {}; }
  Status download(void*, const void*, std::size_t) override { return {}; }
  Status finish() override { return {}; }

  std::deque<std::vector<float>> placed;
};

TEST_F(RankConstantsTest, PutsAPieceOnADeviceOnceAndKeepsNoCopyOnTheHost) {
  RankConstants constants;
  CountingDevice device;
  const Value& a = *graph_->find_value("a");
  const auto place = constants.place(a, symbols_, device);
  ASSERT_TRUE(place.ok()) << place.status().to_string();
  // Another tensor may get the address that the piece had in host memory.
  const auto other = constants.place(*graph_->find_value("b"), symbols_, device);
  ASSERT_TRUE(other.ok());
  EXPECT_NE(*other, *place);
  EXPECT_EQ(*constants.place(a, symbols_, device), *place);
  ASSERT_EQ(device.placed.size(), 2U);
  EXPECT_EQ(device.placed[0].size(), 8U * 4U);
  EXPECT_EQ(device.placed[1].size(), 4U * 4U);
}

}  // namespace
}  // namespace tutti
