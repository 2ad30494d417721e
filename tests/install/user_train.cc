// A user's program against librapt_train: an error thrown in one library is caught by type in another.
#include <rapt/rapt.h>
#include <rapt/trained_model.h>
#ifdef USER_HAS_SUBWORDS
#include <rapt/subwords.h>
#endif

#include <cstdio>
#include <cstring>

int main() {
  rapt::set_default_threads(1);
#ifdef USER_HAS_SUBWORDS
  rapt::use_subwords();
#endif
  try {
    const rapt::TrainedModel model("no_such_run");
    std::fprintf(stderr, "a run that is not there was opened\n");
  } catch (const rapt::Error& error) {
    std::printf("as expected: %s\n", error.what());
    return std::strstr(error.what(), "no_such_run") != nullptr ? 0 : 1;
  }
  return 1;
}
