/* Products of small single-precision matrices on one core, for factors that lie in its caches.

   Widths (columns of a right factor, depth of dot products) are multiples of LANES. A panel is two vectors of LANES
   numbers, or one of twice as many where the processor has them; the order of memory is the same.
*/

#include <stddef.h>
#include <string.h>

#define LANES 8
#define PANEL (2 * LANES)  /* columns of a right factor that lie together, see pack() */
#if defined(__AVX512F__)
#define WIDE PANEL         /* numbers of a vector that products are made of, and of one for the last columns */
#define SLIM LANES
#define TALLEST 12         /* rows of a product whose sums are in registers together */
#define DOT_ROWS 6         /* and rows and columns of a table of dot products */
#define DOT_COLUMNS 4
#elif defined(__AVX2__)
#define WIDE LANES
#define SLIM LANES
#define TALLEST 6
#define DOT_ROWS 4
#define DOT_COLUMNS 3
#else /* vectors of four: longer ones would pass through memory */
#define WIDE (LANES / 2)
#define SLIM WIDE
#ifdef __aarch64__
#define TALLEST 6
#else
#define TALLEST 2
#endif
#define DOT_ROWS 4
#define DOT_COLUMNS 3
#endif

#define INLINE static inline __attribute__((always_inline))

typedef float lane __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef float wide __attribute__((vector_size(4 * WIDE), aligned(4), may_alias));
typedef float slim __attribute__((vector_size(4 * SLIM), aligned(4), may_alias));
typedef float half __attribute__((vector_size(2 * LANES)));
typedef int order __attribute__((vector_size(2 * LANES)));

static long padded(long count) { return (count + LANES - 1) / LANES * LANES; }

INLINE float total(lane x) {
    union { lane whole; half halves[2]; } both = {x};
    half sum = both.halves[0] + both.halves[1];
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

INLINE half folded(wide x) {
#if WIDE == PANEL
    union { wide whole; lane parts[2]; } wider = {x};
    lane sums = wider.parts[0] + wider.parts[1];
#else
    wide sums = x;
#endif
#if WIDE == LANES / 2
    return sums;
#else
    union { lane whole; half parts[2]; } both = {sums};
    return both.parts[0] + both.parts[1];
#endif
}

#ifdef __clang__
#define MIXED(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define MIXED(a, b, ...) __builtin_shuffle(a, b, (order){__VA_ARGS__})
#endif

/* The totals of four vectors, in less than half of the steps that each alone would take. */
INLINE half totals(half a, half b, half c, half d) {
    half ab = MIXED(a, b, 0, 4, 1, 5) + MIXED(a, b, 2, 6, 3, 7), cd = MIXED(c, d, 0, 4, 1, 5) + MIXED(c, d, 2, 6, 3, 7);
    return MIXED(ab, cd, 0, 1, 4, 5) + MIXED(ab, cd, 2, 3, 6, 7);
}

/* c[m][0..columns] (+)= sum over k of a[m * a_row + k * a_step] * b[k * b_step], or b[index[k] * b_step], where columns
   are those of one or two vectors of a type */
#define TILE(name, vector, vectors)                                                                                    \
    INLINE void name(const int height, const int indexed, long depth, const float *a, long a_row, long a_step,         \
                     const float *b, long b_step, const int *index, float *c, long c_row, int add) {                   \
        enum { count = sizeof(vector) / sizeof(float) };                                                               \
        vector sums[TALLEST][vectors];                                                                                 \
        _Pragma("GCC unroll 12") for (int m = 0; m < height; m++)                                                      \
            _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++) sums[m][v] = (vector){0};                        \
        for (long k = 0; k < depth; k++) {                                                                             \
            const float *right = b + (indexed ? index[k] : k) * b_step, *left = a + k * a_step;                        \
            vector these[vectors];                                                                                     \
            _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++) these[v] = *(const vector *)(right + v * count); \
            _Pragma("GCC unroll 12") for (int m = 0; m < height; m++) {                                                \
                float x = left[m * a_row];                                                                             \
                _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++) sums[m][v] += these[v] * x;                  \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("GCC unroll 12") for (int m = 0; m < height; m++)                                                      \
            _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++) {                                                \
                vector *at = (vector *)(c + m * c_row + v * count);                                                    \
                if (add) sums[m][v] += *at;                                                                            \
                *at = sums[m][v];                                                                                      \
            }                                                                                                          \
    }

TILE(tile_of_panel, wide, PANEL / WIDE)
TILE(tile_of_lane, slim, LANES / SLIM)

INLINE void tall_tile(long height, const int whole, const int indexed, long depth, const float *a, long a_row,
                      long a_step, const float *b, long b_step, const int *index, float *c, long c_row, int add) {
    switch (height) {
#define HEIGHT(m)                                                                                    \
    case m:                                                                                          \
        if (whole)                                                                                   \
            tile_of_panel(m, indexed, depth, a, a_row, a_step, b, b_step, index, c, c_row, add);     \
        else                                                                                         \
            tile_of_lane(m, indexed, depth, a, a_row, a_step, b, b_step, index, c, c_row, add);      \
        break;
        HEIGHT(1) HEIGHT(2)
#if TALLEST > 2
        HEIGHT(3) HEIGHT(4) HEIGHT(5) HEIGHT(6)
#endif
#if TALLEST > 6
        HEIGHT(7) HEIGHT(8) HEIGHT(9) HEIGHT(10) HEIGHT(11) HEIGHT(12)
#endif
    }
}

/* Rows in tiles of nearly equal height: a tile of one row would wait for its own sums. */
INLINE void product(const int indexed, long rows, long columns, long depth, const float *a, long a_row, long a_step,
                    const float *b, long b_step, long b_panel, const int *index, float *c, long c_row, int add) {
    long tiles = (rows + TALLEST - 1) / TALLEST;
    for (long column = 0; column < columns; column += PANEL) {
        const float *panel = b + column / PANEL * b_panel;
        for (long number = 0; number < tiles; number++) {
            long row = rows * number / tiles, height = rows * (number + 1) / tiles - row;
            const float *left = a + row * a_row;
            float *out = c + row * c_row + column;
            if (columns - column > LANES)
                tall_tile(height, 1, indexed, depth, left, a_row, a_step, panel, b_step, index, out, c_row, add);
            else
                tall_tile(height, 0, indexed, depth, left, a_row, a_step, panel, b_step, index, out, c_row, add);
        }
    }
}

/* c (+)= a b, where b has rows one after another */
static void times_rows(long rows, long columns, long depth, const float *a, long a_row, long a_step, const float *b,
                       long b_step, float *c, long c_row, int add) {
    product(0, rows, columns, depth, a, a_row, a_step, b, b_step, PANEL, NULL, c, c_row, add);
}

static void times_packed(long rows, long columns, long depth, const float *a, long a_row, const float *b, float *c,
                         long c_row, int add) {
    product(0, rows, columns, depth, a, a_row, 1, b, PANEL, PANEL * depth, NULL, c, c_row, add);
}

static void times_chosen(long rows, long columns, long depth, const float *a, long a_row, const float *b, long b_step,
                         const int *index, float *c, long c_row, int add) {
    product(1, rows, columns, depth, a, a_row, 1, b, b_step, PANEL, index, c, c_row, add);
}

/* Makes [column / PANEL][row][PANEL] of [row][column], so that a product reads one after another; zeros at the end. */
void pack(long rows, long columns, const float *from, float *to) {
    for (long column = 0; column < columns; column += PANEL)
        for (long row = 0; row < rows; row++, to += PANEL) {
            long count = columns - column < PANEL ? columns - column : PANEL;
            if (count == PANEL) {
                memcpy(to, from + row * columns + column, PANEL * sizeof *to);
                continue;
            }
            for (long place = 0; place < PANEL; place++)
                to[place] = place < count ? from[row * columns + column + place] : 0.0f;
        }
}

/* Makes [column][width] of [row][columns], rows `step` apart; zeros at the end. */
static void turn(const float *from, long rows, long step, long columns, long width, float *to) {
    for (long column = 0; column < columns; column++)
        for (long row = 0; row < width; row++) to[column * width + row] = row < rows ? from[row * step + column] : 0.0f;
}

/* out[m][u] = sum over parts and depth of a[m] * b[u], or b[index[u]] */
INLINE void dot_tile(const int height, const int width, long parts, long depth, const float *a, long a_row,
                     long a_part, const float *const *b, long b_part, float *out, long out_row) {
    wide sums[DOT_ROWS][4];
    long whole = depth / WIDE * WIDE; /* what is left is one vector of LANES, or nothing */
#pragma GCC unroll 6
    for (int m = 0; m < height; m++)
#pragma GCC unroll 4
        for (int u = 0; u < 4; u++) sums[m][u] = (wide){0};
    for (long part = 0; part < parts; part++)
        for (long k = 0; k < whole; k += WIDE) {
            wide right[DOT_COLUMNS];
#pragma GCC unroll 4
            for (int u = 0; u < width; u++) right[u] = *(const wide *)(b[u] + part * b_part + k);
#pragma GCC unroll 6
            for (int m = 0; m < height; m++) {
                wide left = *(const wide *)(a + m * a_row + part * a_part + k);
#pragma GCC unroll 4
                for (int u = 0; u < width; u++) sums[m][u] += left * right[u];
            }
        }
#pragma GCC unroll 6
    for (int m = 0; m < height; m++) {
        half found = totals(folded(sums[m][0]), folded(sums[m][1]), folded(sums[m][2]), folded(sums[m][3]));
#pragma GCC unroll 4
        for (int u = 0; u < width; u++) {
#ifdef __AVX512F__
            if (whole < depth) {
                lane rest = {0};
                for (long part = 0; part < parts; part++)
                    rest += *(const lane *)(a + m * a_row + part * a_part + whole) *
                            *(const lane *)(b[u] + part * b_part + whole);
                found[u] += total(rest);
            }
#endif
            out[m * out_row + u] = found[u];
        }
    }
}

static void dots(long rows, long columns, long parts, long depth, const float *a, long a_row, long a_part,
                 const float *b, long b_row, long b_part, const int *index, float *out, long out_row) {
    long tiles = (rows + DOT_ROWS - 1) / DOT_ROWS;
    for (long column = 0; column < columns; column += DOT_COLUMNS) {
        long width = columns - column < DOT_COLUMNS ? columns - column : DOT_COLUMNS;
        const float *right[DOT_COLUMNS] = {b, b, b};
        for (long u = 0; u < width; u++) right[u] = b + (index ? index[column + u] : column + u) * b_row;
        for (long number = 0; number < tiles; number++) {
            long row = rows * number / tiles, height = rows * (number + 1) / tiles - row;
            const float *left = a + row * a_row;
            float *to = out + row * out_row + column;
            switch (height * 4 + width - 4) {
#define DOTS(m, u) \
    case m * 4 + u - 4: dot_tile(m, u, parts, depth, left, a_row, a_part, right, b_part, to, out_row); break;
                DOTS(1, 1) DOTS(1, 2) DOTS(1, 3) DOTS(2, 1) DOTS(2, 2) DOTS(2, 3)
                DOTS(3, 1) DOTS(3, 2) DOTS(3, 3) DOTS(4, 1) DOTS(4, 2) DOTS(4, 3)
#ifdef __AVX512F__
                DOTS(1, 4) DOTS(2, 4) DOTS(3, 4) DOTS(4, 4)
                DOTS(5, 1) DOTS(5, 2) DOTS(5, 3) DOTS(5, 4) DOTS(6, 1) DOTS(6, 2) DOTS(6, 3) DOTS(6, 4)
#endif
            }
        }
    }
}
