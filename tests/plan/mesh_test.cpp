#include "sluice/parts/layout.h"

#include <gtest/gtest.h>

#include <limits>

#include "engine/replicas.h"
#include "sluice/program.h"
#include "sluice/verify.h"
#include "support/expect_error.h"
#include "support/programs.h"

namespace sluice::mesh_test {
namespace {

using Ranks = std::vector<int>;

constexpr Axis kAxes[] = {Axis::kPp, Axis::kDpReplicate, Axis::kDpShard, Axis::kCp,
                          Axis::kTp, Axis::kEp,          Axis::kEpShard};

TEST(MeshTest, OneRankIsAloneAlongEveryAxis) {
  const Mesh mesh;
  EXPECT_EQ(mesh.num_ranks(), 1);
  for (const Axis axis : kAxes) {
    EXPECT_EQ(mesh.size(axis), 1) << to_text(axis);
    EXPECT_EQ(mesh.coordinate(0, axis), 0) << to_text(axis);
    EXPECT_EQ(mesh.group(0, axis), Ranks{0}) << to_text(axis);
  }
}

TEST(MeshTest, TheLastAxisOfTheOrderIsFastest) {
  const Mesh mesh({.pp = 2, .dp_shard = 3});
  EXPECT_EQ(mesh.group(0, Axis::kDpShard), (Ranks{0, 1, 2}));
  EXPECT_EQ(mesh.group(4, Axis::kPp), (Ranks{1, 4}));
  const Mesh other({.pp = 2, .dp_shard = 3},
                   {Axis::kDpReplicate, Axis::kDpShard, Axis::kCp, Axis::kTp, Axis::kPp});
  EXPECT_EQ(other.group(4, Axis::kDpShard), (Ranks{0, 2, 4}));
  EXPECT_EQ(other.group(4, Axis::kPp), (Ranks{4, 5}));
}

TEST(MeshTest, OneRankOfThoseThatDifferAlongSomeAxesIsTheFirst) {
  const Mesh mesh({.pp = 2, .dp_replicate = 2, .dp_shard = 2});
  Ranks first;
  for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
    EXPECT_TRUE(mesh.is_first(rank, {}));
    if (mesh.is_first(rank, {Axis::kDpReplicate, Axis::kCp})) first.push_back(rank);
  }
  EXPECT_EQ(first, (Ranks{0, 1, 4, 5}));
}

TEST(MeshTest, ExpertsAreAnotherViewOfTheRanksOfOneStage) {
  const Mesh mesh({.pp = 2, .dp_replicate = 2, .dp_shard = 2, .cp = 2, .tp = 2, .ep = 4});
  EXPECT_EQ(mesh.size(Axis::kEpShard), 4);
  EXPECT_EQ(mesh.group(0, Axis::kEp), (Ranks{0, 1, 2, 3}));
  EXPECT_EQ(mesh.group(0, Axis::kEpShard), (Ranks{0, 4, 8, 12}));
  EXPECT_EQ(mesh.group(21, Axis::kEp), (Ranks{20, 21, 22, 23}));
}

TEST(MeshTest, GroupsOfAnAxisDivideTheRanks) {
  for (const Mesh& mesh :
       {Mesh({.pp = 3, .dp_replicate = 2, .dp_shard = 3, .cp = 2, .tp = 2, .ep = 6}),
        Mesh({.pp = 2, .dp_replicate = 2, .dp_shard = 4, .cp = 1, .tp = 3, .ep = 2},
             {Axis::kTp, Axis::kDpShard, Axis::kPp, Axis::kCp, Axis::kDpReplicate})}) {
    for (const Axis axis : kAxes) {
      for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
        const Ranks group = mesh.group(rank, axis);
        ASSERT_EQ(group.size(), static_cast<std::size_t>(mesh.size(axis)));
        ASSERT_EQ(group[mesh.coordinate(rank, axis)], rank);
        for (const int member : group) ASSERT_EQ(mesh.group(member, axis), group);
      }
    }
  }
}

TEST(MeshTest, ARankFollowsFromItsCoordinates) {
  for (const Mesh& mesh :
       {Mesh({.pp = 3, .dp_replicate = 2, .dp_shard = 3, .cp = 2, .tp = 2}),
        Mesh({.pp = 2, .dp_replicate = 2, .dp_shard = 4, .cp = 1, .tp = 3},
             {Axis::kTp, Axis::kDpShard, Axis::kPp, Axis::kCp, Axis::kDpReplicate})}) {
    for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
      const auto at = [&](Axis axis) { return mesh.coordinate(rank, axis); };
      EXPECT_EQ(mesh.rank_of({.pp = at(Axis::kPp),
                              .dp_replicate = at(Axis::kDpReplicate),
                              .dp_shard = at(Axis::kDpShard),
                              .cp = at(Axis::kCp),
                              .tp = at(Axis::kTp)}),
                rank);
    }
  }
}

// Iterating over the ranks would take 10^13 steps.
TEST(MeshTest, ARankFollowsFromPlaceReplicaAndShareWithoutASearch) {
  const Mesh mesh({.pp = 64, .dp_replicate = 128, .dp_shard = 1024, .tp = 64});
  for (int rank = mesh.num_ranks() - 20'000; rank < mesh.num_ranks(); ++rank) {
    ASSERT_EQ(rank_at(mesh, place_of(mesh, rank), replica_of(mesh, rank), share_of(mesh, rank)),
              rank);
  }
}

TEST(MeshTest, RefusesWhatIsNoMesh) {
  const auto refusal = [](const MeshSizes& sizes, const Mesh::Order& order = Mesh::kDefaultOrder) {
    return test::message_of([&] { Mesh(sizes, order); });
  };
  EXPECT_NE(refusal({.cp = 0}).find("0 ranks along cp"), std::string::npos);
  EXPECT_NE(refusal({.dp_shard = 4, .ep = 3}).find("ep = 3 does not divide the 4 ranks"),
            std::string::npos);
  EXPECT_NE(refusal({.dp_shard = 2, .tp = 3, .ep = 4}).find("ep = 4 does not divide the 6 ranks"),
            std::string::npos);
  EXPECT_NE(refusal({.pp = std::numeric_limits<int>::max(), .tp = 2}).find("more than 2147483647"),
            std::string::npos);
  EXPECT_NE(refusal({}, {Axis::kPp, Axis::kPp, Axis::kDpShard, Axis::kCp, Axis::kTp})
                .find("names pp twice"),
            std::string::npos);
  EXPECT_NE(
      refusal({}, {Axis::kPp, Axis::kEp, Axis::kDpShard, Axis::kCp, Axis::kTp}).find("names ep"),
      std::string::npos);
}

TEST(MeshTest, AProgramIsOnePipelineOfItsMesh) {
  const Program program = lower(make_schedule("1F1B", {.num_ranks = 3, .num_microbatches = 4}), {});
  EXPECT_EQ(program.mesh, Mesh({.pp = 3}));
  Program replicated = program;
  replicated.mesh = Mesh({.pp = 3, .dp_shard = 2});
  EXPECT_TRUE(verify(replicated).ok());
  Program wrong = program;
  wrong.mesh = Mesh({.pp = 2});
  EXPECT_EQ(verify(wrong).violations.front().reason, "the mesh has 2 ranks along pp for 3 ranks");
}

}  // namespace
}  // namespace sluice::mesh_test
