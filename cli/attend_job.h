#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rapt/dtype.h"
#include "tensor/array.h"

namespace rapt::cli {

// The arguments of `rapt attend` as given; empty: not given.
struct AttendArguments {
  std::string q;
  std::string k;
  std::vector<std::string> v;
  std::string out;
  std::string score;  // or, in its place, these three
  std::string formula;
  std::string pair;
  std::string visible;
  std::vector<std::string> parameters;
  std::string scale;
  std::string softcap;
  std::string normalize = "softmax";
  std::string first_query;
  std::string rotary;
  bool rotary_interleaved = false;
  std::string device = "cpu";
  std::string causal;
  std::string window;
  std::string key_lengths;
  std::string query_starts;
  std::string key_starts;
  std::string mask;
  std::string bias;
  std::vector<std::string> grad;
  std::string dtype;
  std::string threads;
  std::string path = "auto";
  std::string top_k;
  std::string grid;
  std::string weights_head;
  std::string weights_rows;
  bool weights = false;
  bool stats = false;
  bool reference = false;
  bool explain = false;
  std::string distribution = "auto";
  std::string transport = "auto";
  bool json = false;
};

// An array that will become NAME.npy.
struct NamedArray {
  std::string name;
  Array value;
  std::vector<std::int64_t> shape;  // of the file
  // The number of rows of all processes, if several have some; −1: this process has the whole.
  std::int64_t rows = -1;
};

struct AttendResult {
  std::vector<NamedArray> arrays;
  std::string mechanism;
  std::string normalizer;
  Dtype dtype = Dtype::f32;
  int threads = 1;
  double seconds = 0;
  std::string explanation;
};

// Reads the files and computes, backward too when asked. Writes nothing.
AttendResult run_attend(const AttendArguments& arguments);

}  // namespace rapt::cli
