#include "support/file_system_model.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <set>

#include "support/save_order.h"

namespace sluice::test {
namespace {

class Log {
 public:
  Log& open(const std::string& path, int descriptor, bool creates = true) {
    FileCall& call = add("open", path);
    call.flags = creates ? O_WRONLY | O_CREAT | O_EXCL : O_RDONLY | O_DIRECTORY;
    call.result = call.descriptor = descriptor;
    return *this;
  }
  Log& write(int descriptor, const std::string& bytes, long offset = 0) {
    FileCall& call = add("write", "");
    call.descriptor = descriptor;
    call.bytes = bytes;
    call.offset = offset;
    call.result = static_cast<long>(bytes.size());
    return *this;
  }
  Log& on(const char* name, int descriptor) {
    add(name, "").descriptor = descriptor;
    return *this;
  }
  Log& path(const char* name, const std::string& path, const std::string& other = {},
            long flags = 0) {
    FileCall& call = add(name, path);
    call.other = other;
    call.flags = flags;
    return *this;
  }
  Log& file(const std::string& path, const std::string& bytes, bool synced = true) {
    open(path, 9).write(9, bytes);
    if (synced) on("fsync", 9);
    FileCall& closed = add("close", path);
    closed.descriptor = 9;
    return *this;
  }
  Log& sync_folder(const std::string& path) {
    return open(path, 8, false).on("fsync", 8).on("close", 8);
  }

  std::vector<FileCall> calls;

 private:
  FileCall& add(const char* name, const std::string& path) {
    FileCall& call = calls.emplace_back();
    call.number = static_cast<long>(calls.size());
    call.name = name;
    call.path = path;
    return call;
  }
};

Node file_of(const std::string& text) {
  return {Node::Kind::kFile, std::make_shared<const std::string>(text)};
}
const Node kFolder{Node::Kind::kFolder, nullptr};

const std::string kOld = "checkpoint/step-00000001", kNew = "checkpoint/step-00000002";

Tree old_checkpoint() {
  return {{"checkpoint", kFolder},
          {kOld, kFolder},
          {kOld + "/manifest.json", file_of("old manifest")},
          {kOld + "/weights", file_of("old weights")}};
}

std::set<std::string> states(const Tree& before, const Log& log) {
  FileSystemModel model(before);
  for (const FileCall& call : log.calls) model.play(call);
  std::mt19937_64 random(1);
  std::set<std::string> found;
  model.for_each_power_loss(random, 100, [&](const Tree& state, const std::string&) {
    std::string text;
    for (const auto& [path, node] : state) {
      text += (text.empty() ? "" : " ") + path;
      if (node.content) text += "=" + *node.content;
    }
    found.insert(text);
  });
  return found;
}

TEST(FileSystemModelTest, APowerLossKeepsAnyPartOfWhatIsNotSynced) {
  // The folder has the name or not. The file has none, half or all of its bytes, or zeros.
  const std::string zeros(4, '\0');
  EXPECT_EQ(states({}, Log().file("a", "abcd", false)),
            (std::set<std::string>{"", "a=", "a=ab", "a=" + zeros, "a=abcd"}));
  EXPECT_EQ(states({}, Log().file("a", "abcd")), (std::set<std::string>{"", "a=abcd"}));
  EXPECT_EQ(states({}, Log().file("a", "abcd").sync_folder(".")),
            (std::set<std::string>{"a=abcd"}));
  EXPECT_EQ(
      states(
          {},
          Log().open("a", 3).sync_folder(".").write(3, "ab").on("fdatasync", 3).write(3, "cd", 2)),
      (std::set<std::string>{"a=ab", "a=abc", "a=abcd", "a=ab" + std::string(2, '\0')}));
}

TEST(FileSystemModelTest, ARenameHappensAsAWhole) {
  const Tree two = {{"a", file_of("1")}, {"b", file_of("2")}};
  EXPECT_EQ(states(two, Log().path("rename", "a", "b")), (std::set<std::string>{"a=1 b=2", "b=1"}));
  EXPECT_EQ(states(two, Log().path("rename", "a", "b", RENAME_EXCHANGE)),
            (std::set<std::string>{"a=1 b=2", "a=2 b=1"}));
}

TEST(FileSystemModelTest, ChangesOfSeveralNamesAreKeptInAnySubset) {
  const Tree two = {{"a", file_of("1")}, {"b", file_of("2")}};
  EXPECT_EQ(states(two, Log().path("unlink", "a").path("unlink", "b")),
            (std::set<std::string>{"a=1 b=2", "a=1", "b=2", ""}));
}

TEST(FileSystemModelTest, ALogWithAGapIsRefused) {
  FileSystemModel model(Tree{});
  EXPECT_THROW(model.play(Log().write(3, "x").calls.front()), std::runtime_error);
  EXPECT_THROW(model.play(Log().path("rename", "a", "b").calls.front()), std::runtime_error);
  EXPECT_THROW(model.play(Log().path("mkdir", "a/b").calls.front()), std::runtime_error);
  EXPECT_THROW(model.play(Log().path("unlink", "a").calls.front()), std::runtime_error);
  EXPECT_THROW(model.play(Log().open("a", 3, false).calls.front()), std::runtime_error);
}

// Expects these results of check_save_order and check_power_losses. The log follows a checkpoint.
void expect_verdict(const Log& log, const Saving& saving, const std::string& rule,
                    const std::string& state) {
  const OrderReport order = check_save_order(old_checkpoint(), log.calls, saving);
  const LossReport losses = check_power_losses(old_checkpoint(), log.calls, saving, 8, 1);
  const auto expect = [](const std::vector<std::string>& broken, const std::string& part) {
    bool found = part.empty() && broken.empty();
    std::string all;
    for (const std::string& line : broken) {
      found = found || (!part.empty() && line.find(part) != std::string::npos);
      all += line + "\n";
    }
    EXPECT_TRUE(found) << "'" << part << "' is not said in\n" << all;
  };
  expect(order.broken, rule);
  expect(losses.broken, state);
}

const std::string kTemporary = "checkpoint/.step-00000002.tmp-1";

Log written(bool bytes_synced = true, bool folder_synced = true) {
  Log log;
  log.path("mkdir", kTemporary)
      .file(kTemporary + "/weights", "new weights", bytes_synced)
      .file(kTemporary + "/manifest.json", "new manifest");
  if (folder_synced) log.sync_folder(kTemporary);
  return log;
}

Log published(Log log, bool parent_synced = true) {
  log.path("rename", kTemporary, kNew);
  if (parent_synced) log.sync_folder("checkpoint");
  return log;
}

Log then_removed(Log log, bool renamed = true, bool synced = true) {
  const std::string going = "checkpoint/.step-00000001.old-1";
  if (renamed) log.path("rename", kOld, going);
  if (synced) log.sync_folder("checkpoint");
  for (const char* name : {"/manifest.json", "/weights"})
    log.path("unlink", (renamed ? going : kOld) + name);
  return log.path("rmdir", renamed ? going : kOld);
}

TEST(SaveRulesTest, ASaveInTheRightOrderIsRight) {
  expect_verdict(published(written()), {}, "", "");
  expect_verdict(then_removed(published(written())), {}, "", "");
}

TEST(SaveRulesTest, WhatIsCommittedWithoutSyncIsNoticed) {
  expect_verdict(published(written(false, true)), {}, "commits what is not synced: the bytes of",
                 "torn: " + kNew);
  expect_verdict(published(written(true, false)), {}, "commits what is not synced: '",
                 "torn: " + kNew);
  // Synced, but before the last write.
  Log late;
  late.path("mkdir", kTemporary).open(kTemporary + "/weights", 3).write(3, "new");
  late.on("fsync", 3).write(3, "weights", 3).on("close", 3).sync_folder(kTemporary);
  expect_verdict(published(late), {}, "commits what is not synced: the bytes of", "torn: " + kNew);
}

TEST(SaveRulesTest, ACommitThatIsNotDurableAtTheEndIsNoticed) {
  expect_verdict(published(written(), false), {}, "at the end '" + kNew + "' is not durable", "");
}

TEST(SaveRulesTest, NoticesRemovalBeforeNextCheckpointIsDurable) {
  expect_verdict(then_removed(published(written(), false), false, false), {}, "takes apart",
                 "torn: " + kOld);
  expect_verdict(then_removed(published(written(), false)), {}, "goes before a later one",
                 "step 1 was durable and is gone");
  // Renamed away, but the rename is not durable when the files are removed.
  expect_verdict(then_removed(published(written()), true, false), {}, "takes apart",
                 "torn: " + kOld);
}

TEST(SaveRulesTest, AnExchangeIsDurableBeforeTheOldOneIsTakenApart) {
  for (const bool synced : {true, false}) {
    Log log = written();
    log.path("rename", kTemporary, kOld, RENAME_EXCHANGE);
    if (synced) log.sync_folder("checkpoint");
    log.path("unlink", kTemporary + "/weights").path("unlink", kTemporary + "/manifest.json");
    log.path("rmdir", kTemporary).sync_folder("checkpoint");
    expect_verdict(log, {}, synced ? "" : "takes apart", synced ? "" : "torn: " + kOld);
  }
}

Log marked(bool bytes_synced = true, bool folder_synced = true, bool marker_synced = true) {
  Log log;
  log.path("mkdir", kNew)
      .sync_folder("checkpoint")
      .file(kNew + "/weights", "new weights", bytes_synced);
  if (folder_synced) log.sync_folder(kNew);
  log.file(kNew + "/manifest.json", "new manifest", marker_synced);
  return log.sync_folder(kNew);
}

TEST(SaveRulesTest, AMarkerComesLast) {
  const Saving marker{.marker = true};
  expect_verdict(marked(), marker, "", "");
  expect_verdict(marked(false), marker, "commits what is not synced: the bytes of",
                 "torn: " + kNew);
  expect_verdict(marked(true, false), marker, "commits what is not synced: '", "torn: " + kNew);
  expect_verdict(marked(true, true, false), marker, "is not durable: the bytes of", "");
}

TEST(SaveRulesTest, AMarkerGoesFirst) {
  const Saving marker{.marker = true};
  Log log = marked();
  log.path("unlink", kOld + "/manifest.json").sync_folder(kOld);
  log.path("unlink", kOld + "/weights").path("rmdir", kOld).sync_folder("checkpoint");
  expect_verdict(log, marker, "", "");
  Log wrong = marked();
  wrong.path("unlink", kOld + "/weights")
      .path("unlink", kOld + "/manifest.json")
      .path("rmdir", kOld);
  expect_verdict(wrong, marker, "takes apart", "torn: " + kOld);
  Log early;
  early.path("unlink", kOld + "/manifest.json").sync_folder(kOld);
  expect_verdict(early, marker, "goes before a later one", "step 1 was durable and is gone");
}

}  // namespace
}  // namespace sluice::test
