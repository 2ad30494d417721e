#pragma once

#include <memory>
#include <string>
#include <vector>

#include "layers/observer.h"

namespace rapt::inline v1::layers {

// The call of an attention layer. The fused engine recomputes its weights row by row, so nothing of the size queries ×
// keys is stored. Copies share the arrays.
struct AttentionRecord {
  std::string name;
  ConstView q;            // [batch, heads, steps, dim]
  ConstView k;            // [batch, heads or fewer, keys, dim]
  AttendOptions options;  // its views, like q and k, look into `storage`
  std::shared_ptr<const void> storage;

  std::int64_t batches() const { return q.shape[0]; }
  std::int64_t heads() const { return q.shape[1]; }
  std::int64_t rows() const { return q.shape[2]; }
  std::int64_t keys() const { return k.shape[2]; }

  // The weights of rows [begin, end) of one head, [end − begin, keys]. Throws if there are no such rows.
  void weights(std::int64_t batch, std::int64_t head, std::int64_t begin, std::int64_t end, float* out) const;
};

// Records every attention layer of one computation, in the order of first use. A layer that is called step by step
// leaves one record of all steps.
template <class T>
class AttentionLog final : public AttentionObserver<T> {
 public:
  void attended(const Attended<T>& use) override;
  const std::vector<AttentionRecord>& records() const { return records_; }

 private:
  std::vector<AttentionRecord> records_;
};

}  // namespace rapt::inline v1::layers
