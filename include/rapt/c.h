#ifndef RAPT_C_H
#define RAPT_C_H

/* Rapt for C99, and for languages that call C. Functions that return int return RAPT_OK or another value of enum
 * rapt_status, never an exception; rapt_last_error() says what was wrong. Calls may run on several threads at once. */

/* C has no other headers and no using. NOLINTBEGIN(modernize-deprecated-headers, modernize-use-using) */
#include <stddef.h>
#include <stdint.h>

#include "rapt/api.h"

#ifdef __cplusplus
extern "C" {
#endif

enum rapt_status {
  RAPT_OK = 0,
  RAPT_BAD_INPUT = 2, /* an invalid shape, name, number or pointer; nothing was computed */
  RAPT_FAILED = 3     /* out of memory, or an internal error */
};

enum rapt_dtype { RAPT_F32 = 0, RAPT_F64 = 1, RAPT_BF16 = 2, RAPT_F16 = 3, RAPT_BOOL = 4 /* bytes, for masks only */ };

/* The normalisers of this version; rapt_normalizer_name() names them all. */
enum rapt_normalizer { RAPT_SOFTMAX = 0, RAPT_ARGMAX = 1, RAPT_SPARSEMAX = 2, RAPT_ENTMAX15 = 3, RAPT_SIGMOID = 4 };

enum rapt_device { RAPT_CPU = 0, RAPT_CUDA = 1 };

enum rapt_causal { RAPT_CAUSAL_NONE = 0, RAPT_CAUSAL_TOP_LEFT = 1, RAPT_CAUSAL_BOTTOM_RIGHT = 2 };

enum rapt_path { RAPT_PATH_AUTOMATIC = 0, RAPT_PATH_GENERIC = 1, RAPT_PATH_REFERENCE = 2 };

/* An array in the caller's memory. Strides count elements, and the last one is 1. Data NULL: no array. */
typedef struct rapt_array {
  void* data;
  int32_t dtype;        /* enum rapt_dtype */
  int16_t device;       /* enum rapt_device */
  int16_t device_index; /* which one, of several */
  int64_t shape[4];
  int64_t strides[4];
} rapt_array;

/* A parameter of a mechanism, or where its gradient goes. Shapes are aligned to the right: [H] is [1, 1, 1, H]. */
typedef struct rapt_parameter {
  const char* name;
  rapt_array value;
} rapt_parameter;

typedef struct rapt_setting {
  const char* name;
  double value;
} rapt_setting;

/* The structs below grow at their end in later versions. All zeros but struct_size = sizeof the struct, as the *_init
 * functions write them, means: defaults, and nothing asked for. */

typedef struct rapt_options {
  size_t struct_size;
  const char* score; /* NULL: scaled_dot */
  const rapt_parameter* parameters;
  size_t parameter_count;
  const rapt_setting* settings;
  size_t setting_count;
  int64_t grid[2]; /* rows, columns; for mechanisms that have a grid */
  double scale;    /* read if has_scale is not 0; else 1/sqrt(Dk), or 1 where the formula has none */
  int32_t has_scale;
  int32_t normalizer; /* enum rapt_normalizer */
  double softcap;     /* c > 0: the score becomes c tanh(score/c) */
  rapt_array bias;    /* [B|1, H|1, Sq|1, Sk], added after the softcap */
  rapt_array mask;    /* RAPT_BOOL, the same shapes; nonzero = attend. Masks combine by "and" */
  int32_t causal;     /* enum rapt_causal */
  int32_t has_window;
  int64_t window_left; /* read if has_window is not 0; negative: no limit */
  int64_t window_right;
  const int64_t* key_lengths; /* one, or one for each batch */
  size_t key_length_count;
  const int64_t* query_starts; /* packed sequences: start_count numbers each, from 0 to Sq and to Sk */
  const int64_t* key_starts;
  size_t start_count;
  int32_t threads;                             /* 0: the default */
  int32_t path;                                /* enum rapt_path */
  const rapt_parameter* normalizer_parameters; /* softmax: sink [H]; sigmoid: b [H] or one number */
  size_t normalizer_parameter_count;
  const int64_t* first_query; /* query i of batch b is at position first_query[b] + i: one, or one per batch */
  size_t first_query_count;   /* 0: at i */
  int64_t first_key;          /* read if has_first_key is not 0: key j of this part is at position first_key + j */
  int32_t has_first_key;
  int32_t rotary_interleaved; /* 0: elements (n, n + dims/2); else (2n, 2n + 1) */
  int64_t rotary_dims;        /* how many elements of a row are rotated by its position; 0: none */
  double rotary_base;         /* 0: 10000 */
  void* stream;               /* of the device; NULL: its default */
  const char* formula;        /* a score as text, instead of `score`: "raw*scale - m*abs(j-i)"; see docs/formulas.md */
  const char* pair;           /* of a formula: "w*tanh(q+k)"; NULL: the product */
  const char* visible;        /* of a formula: "j <= i and i - j < 256"; NULL: every pair is visible */
} rapt_options;

/* q [B,H,Sq,Dq], k [B,Hk,Sk,Dk], and v_count value sets [B,Hk,Sk,Dv] that share one set of weights. */
typedef struct rapt_inputs {
  size_t struct_size;
  rapt_array q;
  rapt_array k;
  const rapt_array* v;
  size_t v_count;
} rapt_inputs;

/* The weights of some rows of one head: out is [1, 1, row_end - row_begin, Sk]. */
typedef struct rapt_weights_request {
  int64_t batch;
  int64_t head;
  int64_t row_begin;
  int64_t row_end;
  rapt_array out;
} rapt_weights_request;

/* Statistics of each row of weights: contiguous, [B,H,Sq] and what follows; RAPT_F64 for f64 inputs, else RAPT_F32. */
typedef struct rapt_statistics {
  size_t struct_size;
  rapt_array entropy;    /* in nats */
  int64_t* argmax;       /* key of the largest weight, the first of equals; -1 where nothing is visible */
  rapt_array position;   /* expected key position; on a grid [.., 2]: row, column */
  rapt_array covariance; /* of that position; on a grid [.., 2, 2] */
  int32_t top_k;
  int64_t* top_indices;   /* [.., top_k], largest first */
  rapt_array top_weights; /* [.., top_k] */
  int64_t grid[2];        /* rows, columns of the keys; 0, 0: positions are 0 to Sk - 1 */
} rapt_statistics;

/* What the backward pass needs from the forward pass: two numbers per row. */
typedef struct rapt_saved rapt_saved;

typedef struct rapt_outputs {
  size_t struct_size;
  const rapt_array* out; /* one per value set, [B,H,Sq,Dv] */
  size_t out_count;
  rapt_array lse; /* [B,H,Sq,1]: log of the sum of exp(score) */
  const rapt_weights_request* weights;
  size_t weights_count;
  const rapt_statistics* statistics;
  rapt_saved* saved;  /* filled for rapt_attend_backward */
  rapt_array row_max; /* [B,H,Sq,1], partial results under softmax: the row maximum, and */
  rapt_array row_sum; /* the sum of exp(score - maximum); RAPT_F64 for f64 inputs, else RAPT_F32 */
} rapt_outputs;

/* Where gradients go; each has the shape of its array. Data NULL: not computed. */
typedef struct rapt_gradients {
  size_t struct_size;
  rapt_array q;
  rapt_array k;
  const rapt_array* v;
  size_t v_count;
  rapt_array bias;
  const rapt_parameter* parameters;
  size_t parameter_count;
} rapt_gradients;

enum rapt_heads { RAPT_HEADS_SHARED = 0, RAPT_HEADS_OPTIONAL = 1, RAPT_HEADS_REQUIRED = 2 };

/* The parameters of a mechanism. The structs and texts are the library's, never freed; they grow at their end. */
typedef struct rapt_parameter_info {
  const char* name;
  const char*
      shape; /* "[H?,Dq,A]": H heads, H? with or without them, Dq Dk dimensions, A free; see docs/mechanisms.md */
  const char* about;
  int32_t heads;    /* enum rapt_heads: whether there is a leading dimension of heads */
  int32_t required; /* 0: optional */
} rapt_parameter_info;

typedef struct rapt_setting_info {
  const char* name;
  double value; /* the default */
  double low;   /* both ends included */
  double high;
  int32_t integer; /* not 0: integers only */
} rapt_setting_info;

/* The results of attention over part of the keys, and of merging several. */
typedef struct rapt_partial {
  rapt_array out;     /* [B,H,Sq,Dv] */
  rapt_array row_max; /* [B,H,Sq,1] */
  rapt_array row_sum;
} rapt_partial;

typedef struct rapt_partial_gradient {
  rapt_array out;
  rapt_array lse; /* [B,H,Sq,1], for rapt_attend_backward_lse */
} rapt_partial_gradient;

/* A call checked once, for many runs. */
typedef struct rapt_plan rapt_plan;

/* The arrays of one run, each with the sizes, type, strides and device that the plan was made with. NULL: the plan's
 * own array. */
typedef struct rapt_plan_arrays {
  size_t struct_size;
  const void* q;
  const void* k;
  const void* const* v; /* as many as the plan has value sets */
  void* const* out;     /* likewise */
  void* lse;
  void* row_max;
  void* row_sum;
  const void* bias;
  const void* mask;
  const int64_t* key_lengths; /* one, or one for each batch */
  size_t key_length_count;
  const int64_t* first_query; /* one, or one for each batch */
  size_t first_query_count;
} rapt_plan_arrays;

/* One of the messages that are exchanged together: `data` is only read where it is sent. */
typedef struct rapt_message {
  void* data;
  size_t bytes;
  int32_t process; /* to whom, or from whom */
  int32_t receives;
} rapt_message;

/* How the processes of a call exchange messages, without blocking; see rapt/communicator.h. start_… return a message
 * number, negative on failure; test returns 1 for done, 0 for not yet, negative on failure. exchange returns 0, negative
 * on failure; NULL: messages of a device are copied through ordinary memory. */
typedef struct rapt_communicator {
  size_t struct_size;
  void* context; /* for the functions */
  int32_t rank;
  int32_t size;
  int32_t (*start_send)(void* context, const void* data, size_t bytes, int32_t to, int32_t tag);
  int32_t (*start_receive)(void* context, void* data, size_t bytes, int32_t from, int32_t tag);
  int32_t (*test)(void* context, int32_t message);
  double bandwidth; /* bytes per second; 0: the first call measures it and writes it here */
  int32_t (*exchange)(void* context, const rapt_message* messages, size_t count, int32_t device, int32_t device_index,
                      void* stream);
  int32_t without_tags; /* not 0: messages between two processes keep their order, whatever their tag */
} rapt_communicator;

/* The rows of a sequence that one process holds; its arrays have the early ones first. */
typedef struct rapt_share {
  int64_t early_begin;
  int64_t early_end;
  int64_t late_begin;
  int64_t late_end;
} rapt_share;

enum rapt_distribution { RAPT_DISTRIBUTION_AUTOMATIC = 0, RAPT_DISTRIBUTION_RING = 1, RAPT_DISTRIBUTION_HEADS = 2 };

/* struct_size is sizeof the struct as the caller knows it: rapt_options_init(&options, sizeof options). */
RAPT_API void rapt_options_init(rapt_options* options, size_t struct_size);
RAPT_API void rapt_inputs_init(rapt_inputs* inputs, size_t struct_size);
RAPT_API void rapt_statistics_init(rapt_statistics* statistics, size_t struct_size);
RAPT_API void rapt_outputs_init(rapt_outputs* outputs, size_t struct_size);
RAPT_API void rapt_gradients_init(rapt_gradients* gradients, size_t struct_size);
RAPT_API void rapt_plan_arrays_init(rapt_plan_arrays* arrays, size_t struct_size);

/* A contiguous [batch, heads, sequence, dim]; and one stored [batch, sequence, heads, dim], seen in the same order. */
RAPT_API rapt_array rapt_bhsd(const void* data, int32_t dtype, int64_t batch, int64_t heads, int64_t sequence,
                              int64_t dim);
RAPT_API rapt_array rapt_bshd(const void* data, int32_t dtype, int64_t batch, int64_t sequence, int64_t heads,
                              int64_t dim);

/* NULL if out of memory. Freeing NULL does nothing. */
RAPT_API rapt_saved* rapt_saved_create(void);
RAPT_API void rapt_saved_free(rapt_saved* saved);

/* out = normalize(score(q, k)) v. Options NULL: scaled dot-product attention. */
RAPT_API int rapt_attend(const rapt_array* q, const rapt_array* k, const rapt_array* v, const rapt_array* out,
                         const rapt_options* options);

/* The same with several value sets, and with all other outputs. */
RAPT_API int rapt_attend_forward(const rapt_inputs* inputs, const rapt_outputs* outputs, const rapt_options* options);

/* The same call, prepared for many runs: *plan becomes NULL on error. Arrays of parameters, weights and statistics, and
 * `saved`, must outlive the plan. */
RAPT_API int rapt_plan_create(const rapt_inputs* inputs, const rapt_outputs* outputs, const rapt_options* options,
                              rapt_plan** plan);
/* Runs it, allocating nothing; arrays NULL: those the plan was made with. One run of a plan at a time. */
RAPT_API int rapt_plan_run(rapt_plan* plan, const rapt_plan_arrays* arrays);
RAPT_API void rapt_plan_free(rapt_plan* plan); /* NULL does nothing */

/* Gradients of a loss, from the forward outputs and the gradient with respect to each: inputs->v_count arrays of both.
 * With saved NULL the row sums are recomputed. */
RAPT_API int rapt_attend_backward(const rapt_inputs* inputs, const rapt_array* out, const rapt_array* grad_out,
                                  const rapt_saved* saved, const rapt_gradients* gradients,
                                  const rapt_options* options);

/* The same where the loss also depends on lse: grad_lse is [B,H,Sq,1]. */
RAPT_API int rapt_attend_backward_lse(const rapt_inputs* inputs, const rapt_array* out, const rapt_array* grad_out,
                                      const rapt_array* grad_lse, const rapt_saved* saved,
                                      const rapt_gradients* gradients, const rapt_options* options);

/* The share of a process of `length` rows. */
RAPT_API int rapt_share_of(int64_t length, int32_t rank, int32_t size, rapt_share* share);
/* rapt_attend_forward and rapt_attend_backward over processes: each makes the call, with its share of the rows. */
RAPT_API int rapt_attend_distributed(const rapt_inputs* inputs, const rapt_outputs* outputs,
                                     const rapt_options* options, rapt_communicator* communicator,
                                     int32_t distribution);
RAPT_API int rapt_attend_backward_distributed(const rapt_inputs* inputs, const rapt_array* out,
                                              const rapt_array* grad_out, const rapt_saved* saved,
                                              const rapt_gradients* gradients, const rapt_options* options,
                                              rapt_communicator* communicator, int32_t distribution);
/* rapt_attend_backward_lse over processes: grad_lse has this process's rows. */
RAPT_API int rapt_attend_backward_lse_distributed(const rapt_inputs* inputs, const rapt_array* out,
                                                  const rapt_array* grad_out, const rapt_array* grad_lse,
                                                  const rapt_saved* saved, const rapt_gradients* gradients,
                                                  const rapt_options* options, rapt_communicator* communicator,
                                                  int32_t distribution);
/* How this thread's last call over processes was split, and why; "" if it was not. Valid until the next one. */
RAPT_API const char* rapt_last_explanation(void);

/* Merges parts in order; `merged` may be one of them, and lse may be NULL. Threads 0: the default. */
RAPT_API int rapt_merge(const rapt_partial* parts, size_t part_count, const rapt_partial* merged, const rapt_array* lse,
                        int32_t threads);
/* Gradients of every part's out and lse from that of the merged out. */
RAPT_API int rapt_merge_backward(const rapt_partial* parts, size_t part_count, const rapt_partial* merged,
                                 const rapt_array* grad_out, const rapt_partial_gradient* gradients, int32_t threads);

/* The error of this thread's last call that returns a status; "" if it returned RAPT_OK. Valid until the next one. */
RAPT_API const char* rapt_last_error(void);

RAPT_API const char* rapt_version(void); /* "0.1.0" */

/* Mechanisms and their parameters are numbered from 0. NULL or 0 past the end. */
RAPT_API size_t rapt_mechanism_count(void);
RAPT_API const char* rapt_mechanism_name(size_t mechanism);
RAPT_API const char* rapt_mechanism_formula(size_t mechanism);
RAPT_API int32_t rapt_mechanism_has_grid(size_t mechanism); /* not 0: options.grid must be set */
RAPT_API size_t rapt_mechanism_parameter_count(size_t mechanism);
RAPT_API const rapt_parameter_info* rapt_mechanism_parameter(size_t mechanism, size_t parameter);
RAPT_API size_t rapt_mechanism_setting_count(size_t mechanism);
RAPT_API const rapt_setting_info* rapt_mechanism_setting(size_t mechanism, size_t setting);

/* The number of the mechanism of that name. RAPT_BAD_INPUT if there is none. */
RAPT_API int rapt_mechanism_find(const char* name, size_t* mechanism);

/* Normalisers, numbered as enum rapt_normalizer; NULL or 0 past the end. */
RAPT_API size_t rapt_normalizer_count(void);
RAPT_API const char* rapt_normalizer_name(size_t normalizer);
RAPT_API const char* rapt_normalizer_formula(size_t normalizer);
RAPT_API size_t rapt_normalizer_parameter_count(size_t normalizer);
RAPT_API const rapt_parameter_info* rapt_normalizer_parameter(size_t normalizer, size_t parameter);

/* The SIMD target in use: "sse4", "avx2", "avx512" or "portable"; "" if the processor supports none of this build's. */
RAPT_API const char* rapt_isa(void);

/* The number of threads if the options give none. */
RAPT_API int rapt_set_threads(int32_t threads);
RAPT_API int32_t rapt_threads(void);

/* Threads of the host program, lent to Rapt. The function calls work(job, worker) once for each worker in [0, workers), at the
   same time or one after the other, and then returns. Null: Rapt's own threads again. */
typedef void (*rapt_host_threads)(int32_t workers, void (*work)(void* job, int worker), void* job);
RAPT_API void rapt_use_host_threads(rapt_host_threads run);
/* NOLINTEND(modernize-deprecated-headers, modernize-use-using) */
/* Lends the threads of an OpenMP runtime that the process has already loaded, preferably one from `folder` (or NULL).
   Returns 1, or 0 if there is none; then nothing changes. */
RAPT_API int32_t rapt_use_openmp_threads(const char* folder);

/* Returns the workspace that calls keep for the next one, at most 48 MiB, to the system. */
RAPT_API void rapt_release_workspace(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RAPT_C_H */
