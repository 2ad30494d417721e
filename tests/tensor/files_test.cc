#include "tensor/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <thread>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "tests/tensor/temporary_directory.h"

namespace rapt::test {
namespace {

namespace fs = std::filesystem;

auto count_in(const fs::path& path) { return std::distance(fs::directory_iterator(path), fs::directory_iterator()); }

TEST(Files, WriteThenRead) {
  const TemporaryDirectory directory;
  const std::string path = directory / "x.txt";
  const std::string text("a\0b\n", 4);
  write_file(path, text);
  EXPECT_EQ(read_file(path), text);
  write_file(path, "");
  EXPECT_EQ(read_file(path), "");
  EXPECT_EQ(count_in(directory.path()), 1);
}

TEST(Files, ReadingHasALimit) {
  const TemporaryDirectory directory;
  write_file(directory / "x", "12345");
  EXPECT_EQ(read_file(directory / "x", 5), "12345");
  EXPECT_THROW(read_file(directory / "x", 4), Error);
  EXPECT_THROW(read_file(directory / "missing"), Error);
  EXPECT_THROW(read_file(directory.path()), Error);
  EXPECT_THROW(read_file("/dev/zero"), Error);
}

TEST(Files, NothingAppearsBeforeTheCommit) {
  const TemporaryDirectory directory;
  write_file(directory / "a", "old");
  StagedFiles files;
  files.make_directory(directory / "deep/er");
  files.add(directory / "a", "new");
  files.add(directory / "deep/er/b", "new");
  EXPECT_EQ(read_file(directory / "a"), "old");
  EXPECT_FALSE(fs::exists(directory / "deep/er/b"));
  files.commit();
  EXPECT_EQ(read_file(directory / "a"), "new");
  EXPECT_EQ(read_file(directory / "deep/er/b"), "new");
  EXPECT_EQ(count_in(directory.path()), 2);
  EXPECT_EQ(count_in(directory / "deep/er"), 1);
}

TEST(Files, WithoutACommitNothingIsLeft) {
  const TemporaryDirectory directory;
  fs::create_directory(directory / "kept");
  {
    StagedFiles files;
    files.make_directory(directory / "kept/made/below");
    files.add(directory / "kept/made/below/a", "text");
    files.add(directory / "kept/b", "text");
    EXPECT_THROW(files.add(directory / "missing/c", "text"), Error);
    EXPECT_THROW(files.add(directory / "kept", "text"), Error);
  }
  EXPECT_EQ(count_in(directory.path()), 1);
  EXPECT_EQ(count_in(directory / "kept"), 0);
}

TEST(Files, DirectoriesThatCannotBe) {
  const TemporaryDirectory directory;
  write_file(directory / "file", "x");
  StagedFiles files;
  EXPECT_THROW(files.make_directory(directory / "file"), Error);
  EXPECT_THROW(files.make_directory(directory / "file/x"), Error);
  EXPECT_THROW(files.make_directory(""), Error);
  EXPECT_THROW(files.make_directory("/proc/none"), Error);
  files.make_directory(directory / "made/");
  EXPECT_TRUE(fs::is_directory(directory / "made"));
}

TEST(Files, OnlyRegularFilesAreReplaced) {
  const TemporaryDirectory directory;
  // A link stays a link, and its target gets the bytes, in place.
  write_file(directory / "target", "a longer text than the next");
  fs::create_hard_link(directory / "target", directory / "same_file");
  fs::create_symlink("target", directory / "link");
  write_file(directory / "link", "new");
  EXPECT_TRUE(fs::is_symlink(directory / "link"));
  EXPECT_EQ(read_file(directory / "target"), "new");
  EXPECT_EQ(read_file(directory / "same_file"), "new");
  // A link to nothing makes its target.
  fs::create_symlink("made", directory / "dangling");
  write_file(directory / "dangling", "text");
  EXPECT_TRUE(fs::is_symlink(directory / "dangling"));
  EXPECT_EQ(read_file(directory / "made"), "text");
  // A device stays a device.
  fs::create_symlink("/dev/null", directory / "null");
  write_file(directory / "null", "gone");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(Files, APipeIsWrittenTo) {
  const TemporaryDirectory directory;
  const std::string path = directory / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] {
    std::ifstream pipe(path);
    got.assign(std::istreambuf_iterator<char>(pipe), {});
  });
  StagedFiles files;
  files.add(path, "through the pipe");
  files.commit();
  reader.join();
  EXPECT_EQ(got, "through the pipe");
  EXPECT_TRUE(fs::is_fifo(path));
}

// If opened again, the file behind it would be overwritten from its start.
TEST(Files, WhatTheStandardErrorHasIsKept) {
  const TemporaryDirectory directory;
  const fs::path path = directory / "messages";
  const int saved = ::dup(STDERR_FILENO);
  const int file = ::open(path.c_str(), O_CREAT | O_WRONLY, 0600);
  ASSERT_GE(file, 0);
  ::dup2(file, STDERR_FILENO);
  ::close(file);
  std::cerr << "a message\n" << std::flush;
  for (const char* text : {"one\n", "two\n"}) write_file("/dev/stderr", text);
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  EXPECT_EQ(read_file(path), "a message\none\ntwo\n");
}

TEST(Files, WritingThroughWaitsForTheCommitToo) {
  const TemporaryDirectory directory;
  write_file(directory / "target", "old");
  fs::create_symlink("target", directory / "link");
  {
    StagedFiles files;
    files.add(directory / "link", "new");
  }
  EXPECT_EQ(read_file(directory / "target"), "old");
  EXPECT_TRUE(fs::is_symlink(directory / "link"));
}

TEST(Files, AReplacedFileKeepsItsPermissions) {
  const TemporaryDirectory directory;
  write_file(directory / "secret", "old");
  fs::permissions(directory / "secret", fs::perms::owner_read | fs::perms::owner_write);
  write_file(directory / "secret", "new");
  EXPECT_EQ(fs::status(directory / "secret").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

}  // namespace
}  // namespace rapt::test
