/* What layers hand on of relevance by the alpha-beta rule, single precision, on one core.

   The same mathematics as alpha_beta.py. There, what input i gives output j, z_ji, is written to memory for every
   position; here it is made again whenever it is needed, in registers, and only its positive part is: negative parts are
   the positive ones of negated inputs and biases.

   Arrays are [position][row][step][width]. A position has relevance at some steps only (begin);
   the others are not read, and get zeros. Inputs are multiples of PANEL. The caller checks shapes and types.
*/

#include <stdlib.h>
#include <string.h>

#ifdef __AVX__
#include <immintrin.h>
#endif

#define PANEL 16
#ifdef __AVX512F__
#define LANES 16
#define TALLEST 10 /* steps whose sums are in registers together */
#else
#define LANES 8
#define TALLEST 5
#endif
#define VECTORS (PANEL / LANES)

#define INLINE static inline __attribute__((always_inline))

typedef float lane __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#ifdef __AVX512F__
INLINE lane positive(lane x) { return (lane)_mm512_max_ps((__m512)x, _mm512_setzero_ps()); }
INLINE lane spread(float x) { return (lane)_mm512_set1_ps(x); }
INLINE float total(lane x) { return _mm512_reduce_add_ps((__m512)x); }
#else
#ifdef __AVX__
INLINE lane positive(lane x) { return (lane)_mm256_max_ps((__m256)x, _mm256_setzero_ps()); }
#else
typedef int bits __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
INLINE lane positive(lane x) { return (lane)((bits)x & (bits)(x > 0)); }
#endif
INLINE lane spread(float x) { return (lane){x, x, x, x, x, x, x, x}; }
INLINE float total(lane x) { return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7])); }
#endif

INLINE lane load(const float *from, int vector) { return *(const lane *)(from + vector * LANES); }

/* Sums of a tile: of some steps, over a panel. */
INLINE void clear(const int height, lane sums[][VECTORS]) {
#pragma GCC unroll 10
    for (int m = 0; m < height; m++)
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++) sums[m][v] = (lane){0};
}

INLINE void add(const int height, const lane *parts, const float *ratio, long ratio_row, lane sums[][VECTORS]) {
#pragma GCC unroll 10
    for (int m = 0; m < height; m++)
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++) sums[m][v] += parts[v] * ratio[m * ratio_row];
}

INLINE void put(const int height, lane sums[][VECTORS], float *found, long found_row) {
#pragma GCC unroll 10
    for (int m = 0; m < height; m++)
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++) *(lane *)(found + m * found_row + v * LANES) = sums[m][v];
}

/* Makes one place (a position of a row) ready: writes what relevance is there divided by what it is a share of,
   ratio[step][j] = relevance[step][j] * scale[j] * factor[step], and zeros for the steps that it cannot matter to.
   `reach` is 0 for every step, 1 for its own step and later ones, 2 for its own step only. Returns where the first step
   of these goes, and how many there are. */
INLINE float *begin(long place, long rows, long steps, long reach, long outputs, long inputs, const float *relevance,
                    const float *scale, const float *factor, float *ratio, float *found, long *count) {
    long first = reach ? place / rows : 0, last = reach == 2 ? first + 1 : steps;
    float *to = found + place * steps * inputs;
    memset(to, 0, first * inputs * sizeof(float));
    memset(to + last * inputs, 0, (steps - last) * inputs * sizeof(float));
    relevance += (place * steps + first) * outputs, scale += place * outputs, factor += place * steps;
    for (long step = first; step < last; step++)
        for (long j = 0; j < outputs; j++) *ratio++ = *relevance++ * scale[j] * factor[step];
    *count = last - first;
    return to + first * inputs;
}

/* arrived[place][step] = sum over j of relevance[place][step][j], and passed the same of relevance times kept[place][j];
   zeros for the steps that the place cannot matter to. */
void sums(long positions, long rows, long steps, long reach, long outputs, const float *relevance, const float *kept,
          float *arrived, float *passed) {
    memset(arrived, 0, positions * rows * steps * sizeof(float));
    memset(passed, 0, positions * rows * steps * sizeof(float));
    for (long place = 0; place < positions * rows; place++, kept += outputs) {
        long first = reach ? place / rows : 0, last = reach == 2 ? first + 1 : steps;
        for (long step = first; step < last; step++) {
            const float *r = relevance + (place * steps + step) * outputs;
            lane all = {0}, some = {0};
            long j = 0;
            for (; j + LANES <= outputs; j += LANES) {
                lane now = load(r + j, 0);
                all += now, some += now * load(kept + j, 0);
            }
            float rest = 0, rest_passed = 0;
            for (; j < outputs; j++) rest += r[j], rest_passed += r[j] * kept[j];
            arrived[place * steps + step] = total(all) + rest;
            passed[place * steps + step] = total(some) + rest_passed;
        }
    }
}

/* z of a linear layer is bias[j] + x[i] weight[j][i]. totals[position][row][j] = sum over i of its positive part. */
void linear_totals(long count, long outputs, long inputs, const float *weight, const float *bias, const float *x,
                   float *totals) {
    for (long vector = 0; vector < count; vector++, x += inputs)
        for (long j = 0; j < outputs; j++) {
            const float *w = weight + j * inputs;
            lane b = spread(bias[j]), sums[2] = {{0}, {0}};
            long i = 0;
            for (; i + 2 * LANES <= inputs; i += 2 * LANES)
                for (int v = 0; v < 2; v++) sums[v] += positive(b + load(x + i, v) * load(w + i, v));
            if (i < inputs) sums[0] += positive(b + load(x + i, 0) * load(w + i, 0));
            *totals++ = total(sums[0] + sums[1]);
        }
}

/* found[m][0..PANEL] = sum over j of ratio[m][j] * positive part of bias[j] + x w[j], w of one panel */
INLINE void linear_tile(const int height, long outputs, const float *w, const float *bias, const float *x,
                        const float *ratio, long ratio_row, float *found, long found_row) {
    lane sums[TALLEST][VECTORS], read[VECTORS], parts[VECTORS];
    for (int v = 0; v < VECTORS; v++) read[v] = load(x, v);
    clear(height, sums);
    for (long j = 0; j < outputs; j++, w += PANEL) {
        for (int v = 0; v < VECTORS; v++) parts[v] = positive(spread(bias[j]) + read[v] * load(w, v));
        add(height, parts, ratio + j, ratio_row, sums);
    }
    put(height, sums, found, found_row);
}

/* found[..][step][i] = sum over j of ratio[..][step][j] * positive part of z; `packed` is [panel][output][PANEL].
   `scale` is [position][row][output], `factor` [position][row][step]. Returns whether there was memory. */
int linear_shares(long positions, long rows, long steps, long reach, long outputs, long inputs, const float *packed,
                  const float *bias, const float *x, const float *relevance, const float *scale, const float *factor,
                  float *found) {
    float *ratio = malloc(steps * outputs * sizeof(float));
    if (!ratio) return 0;
    for (long place = 0; place < positions * rows; place++) {
        long count;
        float *to = begin(place, rows, steps, reach, outputs, inputs, relevance, scale, factor, ratio, found, &count);
        long tiles = (count + TALLEST - 1) / TALLEST;
        for (long i = 0; i < inputs; i += PANEL)
            for (long number = 0; number < tiles; number++) {
                long row = count * number / tiles, height = count * (number + 1) / tiles - row;
                const float *w = packed + i * outputs, *vector = x + place * inputs + i, *r = ratio + row * outputs;
                float *at = to + row * inputs + i;
                switch (height) {
#define HEIGHT(m) case m: linear_tile(m, outputs, w, bias, vector, r, outputs, at, inputs); break;
                    HEIGHT(1) HEIGHT(2) HEIGHT(3) HEIGHT(4) HEIGHT(5)
#if TALLEST > 5
                    HEIGHT(6) HEIGHT(7) HEIGHT(8) HEIGHT(9) HEIGHT(10)
#endif
#undef HEIGHT
                }
            }
    }
    free(ratio);
    return 1;
}

/* z of a layer norm is bias[j] + across[j] x[i] + along[j] y[i], plus diagonal[j] at i = j; all but bias by position.
   `vectors` is [across, along, diagonal, x, y][position][row][width]. */
typedef struct {
    const float *across, *along, *diagonal, *x, *y;
} Parts;

INLINE Parts parts_of(const float *vectors, long count, long width, long place) {
    const float *at = vectors + place * width;
    long size = count * width;
    return (Parts){at, at + size, at + 2 * size, at + 3 * size, at + 4 * size};
}

INLINE float plain(Parts p, float bias, long j, long i) { return bias + p.across[j] * p.x[i] + p.along[j] * p.y[i]; }

INLINE float above(float x) { return x > 0 ? x : 0; }

/* How much more the positive part of z is at i = j than it would be without the diagonal. */
INLINE float more(Parts p, float bias, long j) {
    float there = plain(p, bias, j, j);
    return above(there + p.diagonal[j]) - above(there);
}

void norm_totals(long count, long width, const float *bias, const float *vectors, float *totals) {
    for (long place = 0; place < count; place++) {
        Parts p = parts_of(vectors, count, width, place);
        for (long j = 0; j < width; j++) {
            lane b = spread(bias[j]), across = spread(p.across[j]), along = spread(p.along[j]), sum = {0};
            for (long i = 0; i < width; i += LANES)
                sum += positive(b + across * *(const lane *)(p.x + i) + along * *(const lane *)(p.y + i));
            *totals++ = total(sum) + more(p, bias[j], j);
        }
    }
}

INLINE void norm_tile(const int height, long width, Parts p, long i, const float *bias, const float *ratio,
                      long ratio_row, float *found, long found_row) {
    lane sums[TALLEST][VECTORS], x[VECTORS], y[VECTORS], parts[VECTORS];
    for (int v = 0; v < VECTORS; v++) x[v] = load(p.x + i, v), y[v] = load(p.y + i, v);
    clear(height, sums);
    for (long j = 0; j < width; j++) {
        lane b = spread(bias[j]), across = spread(p.across[j]), along = spread(p.along[j]);
        for (int v = 0; v < VECTORS; v++) parts[v] = positive(b + across * x[v] + along * y[v]);
        add(height, parts, ratio + j, ratio_row, sums);
    }
    put(height, sums, found, found_row);
}

int norm_shares(long positions, long rows, long steps, long reach, long width, const float *bias,
                const float *vectors, const float *relevance, const float *scale, const float *factor, float *found) {
    float *ratio = malloc(steps * width * sizeof(float));
    if (!ratio) return 0;
    for (long place = 0; place < positions * rows; place++) {
        long count;
        float *to = begin(place, rows, steps, reach, width, width, relevance, scale, factor, ratio, found, &count);
        long tiles = (count + TALLEST - 1) / TALLEST;
        Parts p = parts_of(vectors, positions * rows, width, place);
        for (long i = 0; i < width; i += PANEL)
            for (long number = 0; number < tiles; number++) {
                long row = count * number / tiles, height = count * (number + 1) / tiles - row;
                switch (height) {
#define HEIGHT(m) \
    case m: norm_tile(m, width, p, i, bias, ratio + row * width, width, to + row * width + i, width); break;
                    HEIGHT(1) HEIGHT(2) HEIGHT(3) HEIGHT(4) HEIGHT(5)
#if TALLEST > 5
                    HEIGHT(6) HEIGHT(7) HEIGHT(8) HEIGHT(9) HEIGHT(10)
#endif
#undef HEIGHT
                }
            }
        for (long j = 0; j < width; j++) {
            float extra = more(p, bias[j], j);
            for (long step = 0; step < count; step++) to[step * width + j] += ratio[step * width + j] * extra;
        }
    }
    free(ratio);
    return 1;
}
