#include <rapt/c.h>

#include <stdint.h>
#include <stdio.h>

/* What the page's code takes for granted: sizes, and memory with numbers in it. */
enum { B = 2, H = 4, S = 24, D = 16 };

static float q[B * H * S * D], k[B * H * S * D], v[B * H * S * D], out[B * H * S * D], lse[B * H * S], slopes[H];
static float grad_out[B * H * S * D], dq[B * H * S * D], dk[B * H * S * D], dv[B * H * S * D], d_slopes[H];
