/* Steps backwards through the parts of a Transformer, single precision, on one core.

   The same mathematics as transformer_layers.py, which is where to read what is computed and why; both are tested
   against automatic differentiation. What this adds: the gradients of a block of rows stay in the processor's cache;
   positions that a start cannot reach are not gone through; and of a feed-forward net only those units are gone
   through that the ReLU let pass in the forward pass, which are few once a model is trained.

   Gradients are [row][position][start][dim]: a block of rows, all with the same starts. Where a gradient has a
   triangle (decoder positions), start s, a target position, reaches positions up to places[s] and no others; what lies
   beyond is never read. Widths are multiples of LANES. The caller checks shapes and types (transformer_compiled.py).
*/

#include <stdlib.h>
#include <string.h>

#include "products.h"

typedef struct {
    long row, rows;       /* the first row of the forward pass, and how many */
    long starts;
    const long *places;   /* [start]: target positions, ascending */
} Block;

typedef struct {
    const float *inputs;         /* [row][position][dim] */
    const float *mean, *scale;   /* [row][position] */
    const float *weight;         /* [dim] */
} Norm;

typedef struct {
    long positions, dim, units, triangle, norm_first;
    const float *slopes;    /* [row][position][unit]: of the activation; of a ReLU 1 or 0 */
    const float *widen;     /* [unit][dim] */
    const float *narrow;    /* [unit][dim]: transposed */
    Norm norm;
} Feed;

typedef struct {
    long queries, keys, dim, heads, triangle, norm_first;
    const float *weights;           /* [row][head][query][key] */
    const float *query, *key, *value;   /* [row][head][position][head_dim]; queries scaled */
    const float *output, *to_value, *to_key, *to_query;  /* packed; to_query with the scale of scores in it */
    const float *value_rows, *key_rows, *query_rows;     /* the last three, not packed */
    Norm norm;
} Attention;

typedef struct {
    long positions, dim, heads;
    const float *weights;                 /* [row][head][query][key] */
    const float *query, *key, *value;     /* [row][head][position][head_dim]; queries scaled */
    const float *project, *output;        /* packed, transposed; queries scaled */
} Lowest;

typedef struct {
    const float *cotangents;     /* [row][position][dim] */
    Norm norm;                   /* after the decoder; inputs are NULL if there is none */
    Feed feed;
    Attention cross, own;
    long alone;                  /* whether there is no layer below */
} Top;

/* The gradient of what a layer norm read, in place of that of what it made, for some starts at one position. */
static void unnorm(const Norm *norm, long at, long starts, long dim, float *grad) {
    const float *inputs = norm->inputs + at * dim;
    float mean = norm->mean[at], scale = norm->scale[at];
    for (long start = 0; start < starts; start++, grad += dim) {
        lane sums = {0}, along = {0};
        for (long k = 0; k < dim; k += LANES) {
            lane weighted = *(lane *)(grad + k) * *(const lane *)(norm->weight + k);
            sums += weighted;
            along += weighted * ((*(const lane *)(inputs + k) - mean) * scale);
        }
        float level = total(sums) / dim, slope = total(along) / dim;
        for (long k = 0; k < dim; k += LANES) {
            lane weighted = *(lane *)(grad + k) * *(const lane *)(norm->weight + k);
            lane unit = (*(const lane *)(inputs + k) - mean) * scale;
            *(lane *)(grad + k) = (weighted - level - unit * slope) * scale;
        }
    }
}

static void add_to(long count, const float *what, float *to) {
    for (long k = 0; k < count; k += LANES) *(lane *)(to + k) += *(const lane *)(what + k);
}

/* How many positions the last start reaches, and for each position the first start that reaches it. */
static long reached(const Block *block, long positions, int triangle, long *first) {
    if (triangle) positions = block->places[block->starts - 1] + 1;
    for (long position = 0, start = 0; position < positions; position++) {
        while (triangle && block->places[start] < position) start++;
        first[position] = start;
    }
    return positions;
}

/* c (+)= a b for all pairs of positions and starts in reach, both [position][start][...] */
INLINE void over_pairs(const int packed, long positions, long starts, const long *first, int triangle, long columns,
                       long depth, const float *a, long a_row, const float *b, long b_step, float *c, long c_row,
                       int add) {
    long at_once = triangle ? 1 : positions;
    for (long position = 0; position < positions; position += at_once) {
        long pair = position * starts + first[position], rows = at_once * starts - first[position];
        if (packed)
            times_packed(rows, columns, depth, a + pair * a_row, a_row, b, c + pair * c_row, c_row, add);
        else
            times_rows(rows, columns, depth, a + pair * a_row, a_row, 1, b, b_step, c + pair * c_row, c_row, add);
    }
}

void norm_back(const Block *block, const Norm *norm, long positions, long dim, float *grad) {
    long starts = block->starts, at = block->row * positions;
    for (long count = block->rows * positions; count > 0; count--, at++, grad += starts * dim)
        unnorm(norm, at, starts, dim, grad);
}

/* Some starts at one position; scratch for units + dim numbers per start, open for units. */
static void feed_at(const Feed *feed, long at, long starts, float *into, float *scratch, int *open) {
    long dim = feed->dim, units = feed->units, count = 0;
    const float *slopes = feed->slopes + at * units;
    int ones = 1;
    float *found = scratch + starts * units;
    for (int unit = 0; unit < units; unit++) {
        open[count] = unit;
        count += slopes[unit] != 0.0f;
        ones &= slopes[unit] == 0.0f || slopes[unit] == 1.0f;
    }
    if (!feed->norm_first) unnorm(&feed->norm, at, starts, dim, into);
    dots(starts, count, 1, dim, into, dim, 0, feed->narrow, dim, 0, open, scratch, units);
    if (!ones)
        for (long start = 0; start < starts; start++)
            for (long k = 0; k < count; k++) scratch[start * units + k] *= slopes[open[k]];
    if (!feed->norm_first) {
        times_chosen(starts, dim, count, scratch, units, feed->widen, dim, open, into, dim, 1);
        return;
    }
    times_chosen(starts, dim, count, scratch, units, feed->widen, dim, open, found, dim, 0);
    unnorm(&feed->norm, at, starts, dim, found);
    add_to(starts * dim, found, into);
}

int feed_back(const Block *block, const Feed *feed, float *grad) {
    long positions = feed->positions, dim = feed->dim, units = feed->units, starts = block->starts;
    float *scratch = malloc(starts * (units + dim) * sizeof *scratch);
    int *open = malloc((units + 1) * sizeof *open);
    long *first = malloc(positions * sizeof *first);
    int failed = !scratch || !open || !first;
    long used = failed ? 0 : reached(block, positions, feed->triangle, first);
    for (long row = 0; row < block->rows; row++, grad += positions * starts * dim)
        for (long position = 0; position < used; position++)
            feed_at(feed, (block->row + row) * positions + position, starts - first[position],
                    grad + (position * starts + first[position]) * dim, scratch, open);
    free(scratch), free(open), free(first);
    return failed;
}

/* Turns gradients of attention weights [pair][key] into those of scores, in place. */
static void unsoftmax(long starts, long width, const float *weights, float *scores) {
    for (long start = 0; start < starts; start++, scores += width) {
        lane sums = {0};
        for (long k = 0; k < width; k += LANES) sums += *(const lane *)(weights + k) * *(lane *)(scores + k);
        float mean = total(sums);
        for (long k = 0; k < width; k += LANES)
            *(lane *)(scores + k) = (*(lane *)(scores + k) - mean) * *(const lane *)(weights + k);
    }
}

/* What changes of scores [head][query][start][width] send back through keys and queries, added to to_keys and
   to_queries: from vectors made ready, one for each query or key and head, by the transposed projections. */
static void combine_ready(const Block *block, const Attention *layer, long row, long used, const long *first,
                          const float *scores, float *to_keys, float *to_queries, float *ready) {
    long queries = layer->queries, keys = layer->keys, dim = layer->dim, heads = layer->heads, starts = block->starts;
    long size = dim / heads, width = padded(keys), by_query = starts * width, by_head = queries * by_query;
    for (long head = 0; head < heads; head++)
        times_rows(used, dim, size, layer->query + (row * heads + head) * queries * size, size, 1,
                   layer->key_rows + head * size * dim, dim, ready + head * queries * dim, dim, 0);
    for (long start = 0; start < starts; start++) {
        float *to = to_keys + start * dim;
        const float *score = scores + start * width;
        if (!layer->triangle)  /* those of the next head follow at the same distance as those of the next query */
            times_rows(keys, dim, heads * queries, score, 1, by_query, ready, dim, to, starts * dim, 1);
        else
            for (long head = 0; head < heads; head++)
                times_rows(keys, dim, block->places[start] + 1, score + head * by_head, 1, by_query,
                           ready + head * queries * dim, dim, to, starts * dim, 1);
    }
    for (long head = 0; to_queries && head < heads; head++) {
        times_rows(keys, dim, size, layer->key + (row * heads + head) * keys * size, size, 1,
                   layer->query_rows + head * size * dim, dim, ready, dim, 0);
        over_pairs(0, used, starts, first, layer->triangle, dim, keys, scores + head * by_head, width, ready, dim,
                   to_queries, dim, 1);
    }
}

/* The same by gradients of keys and queries, [position][start][dim] in parts, which are then projected. */
static void combine_parts(const Block *block, const Attention *layer, long row, long used, const long *first,
                          const float *scores, float *to_keys, float *to_queries, float *parts) {
    long queries = layer->queries, keys = layer->keys, dim = layer->dim, heads = layer->heads, starts = block->starts;
    long size = dim / heads, width = padded(keys), by_query = starts * width, by_head = queries * by_query;
    for (long start = 0; start < starts; start++)
        for (long head = 0; head < heads; head++)
            times_rows(keys, size, layer->triangle ? block->places[start] + 1 : queries,
                       scores + head * by_head + start * width, 1, by_query,
                       layer->query + (row * heads + head) * queries * size, size,
                       parts + start * dim + head * size, starts * dim, 0);
    times_packed(keys * starts, dim, dim, parts, dim, layer->to_key, to_keys, dim, 1);
    if (!to_queries) return;
    for (long head = 0; head < heads; head++)
        over_pairs(0, used, starts, first, layer->triangle, size, keys, scores + head * by_head, width,
                   layer->key + (row * heads + head) * keys * size, size, parts + head * size, dim, 0);
    over_pairs(1, used, starts, first, layer->triangle, dim, dim, parts, dim, layer->to_query, 0, to_queries, dim, 1);
}

/* One row of an attention layer; scratch is what scratch_of() counts. */
static void attend_back(const Block *block, const Attention *layer, long row, long used, const long *first,
                        float *into, float *to_keys, float *to_queries, float *scratch) {
    long queries = layer->queries, keys = layer->keys, dim = layer->dim, heads = layer->heads, starts = block->starts;
    long size = dim / heads, width = padded(keys), by_query = starts * width, by_head = queries * by_query;
    int triangle = layer->triangle;
    const float *values = layer->value + row * keys * dim;
    const float *weights_of_row = layer->weights + row * heads * queries * keys;
    float *sent = scratch, *mixed = sent + queries * starts * dim, *scores = mixed + (queries + keys) * starts * dim;
    float *weights = scores + heads * by_head, *turned = weights + queries * width;
    over_pairs(1, used, starts, first, triangle, dim, dim, into, dim, layer->output, 0, sent, dim, 0);
    for (long head = 0; head < heads; head++) {
        const float *value = values + head * keys * size, *part = weights_of_row + head * queries * keys;
        float *score = scores + head * by_head;
        memset(weights, 0, queries * width * sizeof *weights);
        for (long query = 0; query < used; query++)
            memcpy(weights + query * width, part + query * keys, keys * sizeof *weights);
        turn(value, keys, size, size, width, turned);
        over_pairs(0, used, starts, first, triangle, width, size, sent + head * size, dim, turned, width, score, width,
                   0);
        for (long query = 0; query < used; query++)
            unsoftmax(starts - first[query], width, weights + query * width,
                      score + query * by_query + first[query] * width);
        for (long start = 0; start < starts; start++) {
            long deep = triangle ? block->places[start] + 1 : queries;
            times_rows(keys, size, deep, weights, 1, width, sent + start * dim + head * size, starts * dim,
                       mixed + start * dim + head * size, starts * dim, 0);
        }
    }
    times_packed(keys * starts, dim, dim, mixed, dim, layer->to_value, to_keys, dim, 1);
    /* Ready vectors cost a projection for each position, and save one for each position and start less what combining
       them costs. They fit where mixed was, which is no longer needed. */
    long longest = queries > keys ? queries : keys;
    int worth = starts >= heads && starts * (dim - heads * longest) > dim;
    (worth ? combine_ready : combine_parts)(block, layer, row, used, first, scores, to_keys, to_queries, mixed);
}

static long scratch_of(const Block *block, const Attention *layer) {
    long width = padded(layer->keys), pairs = layer->queries * block->starts;
    return (3 * layer->queries + layer->keys) * block->starts * layer->dim + layer->heads * pairs * width
        + (layer->queries + layer->dim / layer->heads) * width;
}

/* Self-attention if memory is NULL. Else adds to memory [row][key][start][dim]; grad is then what reaches the states
   before the branch if want_query, and of no meaning otherwise. */
int attention_back(const Block *block, const Attention *layer, float *grad, float *memory, int want_query) {
    long queries = layer->queries, dim = layer->dim, starts = block->starts, size = queries * starts * dim;
    float *scratch = malloc(scratch_of(block, layer) * sizeof *scratch);
    long *first = malloc(queries * sizeof *first);
    if (!scratch || !first) {
        free(scratch), free(first);
        return 1;
    }
    float *found = scratch + scratch_of(block, layer) - size;
    long used = reached(block, queries, layer->triangle, first);
    for (long row = block->row; row < block->row + block->rows; row++, grad += size) {
        if (!layer->norm_first)
            for (long query = 0; query < used; query++)
                unnorm(&layer->norm, row * queries + query, starts - first[query], dim,
                       grad + (query * starts + first[query]) * dim);
        /* Where the norm comes first, what the branch read has a gradient of its own. */
        float *own = layer->norm_first ? found : grad;
        if (own == found) memset(found, 0, size * sizeof *found);
        attend_back(block, layer, row, used, first, grad, memory ? memory : own, want_query ? own : NULL, scratch);
        if (memory) memory += layer->keys * starts * dim;
        if (own == found && want_query)
            for (long query = 0; query < used; query++) {
                long some = starts - first[query], place = (query * starts + first[query]) * dim;
                unnorm(&layer->norm, row * queries + query, some, dim, found + place);
                add_to(some * dim, found + place, grad + place);
            }
    }
    free(scratch), free(first);
    return 0;
}

/* One row of attention at the top of the decoder, where every start is still alone at its own place: sets to_keys
   [key][start][dim], as far as a start reaches, and to_queries [start][dim]. */
static void attend_top(const Block *block, const Attention *layer, long row, int causal, const float *into,
                       float *to_keys, float *to_queries, float *scratch) {
    long queries = layer->queries, keys = layer->keys, dim = layer->dim, heads = layer->heads, starts = block->starts;
    long size = dim / heads, width = padded(keys), all = heads * dim;
    const float *value_of_row = layer->value + row * keys * dim;
    const float *weights = layer->weights + row * heads * queries * keys;
    float *sent = scratch, *by_key = sent + starts * dim, *by_value = by_key + starts * all;
    float *scores = by_value + starts * all, *turned = scores + heads * starts * width, *shares = turned + size * width;
    float *asking = shares + width;
    times_packed(starts, dim, dim, into, dim, layer->output, sent, dim, 0);
    for (long head = 0; head < heads; head++) {
        long at = (row * heads + head) * queries;
        float *score = scores + head * starts * width;
        turn(value_of_row + head * keys * size, keys, size, size, width, turned);
        times_rows(starts, width, size, sent + head * size, dim, 1, turned, width, score, width, 0);
        times_rows(starts, dim, size, sent + head * size, dim, 1, layer->value_rows + head * size * dim, dim,
                   by_value + head * dim, all, 0);
        for (long start = 0; start < starts; start++) {
            long place = block->places[start];
            memset(shares, 0, width * sizeof *shares);
            memcpy(shares, weights + (head * queries + place) * keys, keys * sizeof *shares);
            unsoftmax(1, width, shares, score + start * width);
            memcpy(asking + start * size, layer->query + (at + place) * size, size * sizeof *asking);
        }
        times_rows(starts, dim, size, asking, size, 1, layer->key_rows + head * size * dim, dim, by_key + head * dim,
                   all, 0);
    }
    for (long start = 0; start < starts; start++) {
        long place = block->places[start], reach = causal ? place + 1 : keys;
        float *to = to_keys + start * dim;
        times_rows(reach, dim, heads, scores + start * width, 1, starts * width, by_key + start * all, dim, to,
                   starts * dim, 0);
        times_rows(reach, dim, heads, weights + place * keys, 1, queries * keys, by_value + start * all, dim, to,
                   starts * dim, 1);
    }
    float *parts = sent;  /* no longer needed */
    for (long head = 0; head < heads; head++)
        times_rows(starts, size, keys, scores + head * starts * width, width, 1,
                   layer->key + (row * heads + head) * keys * size, size, parts + head * size, dim, 0);
    times_packed(starts, dim, dim, parts, dim, layer->to_query, to_queries, dim, 0);
}

static long top_scratch(const Block *block, const Attention *layer) {
    long width = padded(layer->keys), starts = block->starts, dim = layer->dim;
    long size = dim / layer->heads;
    return (1 + 2 * layer->heads) * starts * dim + layer->heads * starts * width + (size + 1) * width + starts * size;
}

/* From the decoder's output through its top layer: sets memory [row][source][start][dim] and, unless the layer is
   alone, grad [row][position][start][dim]. */
int top_back(const Block *block, const Top *top, float *memory, float *grad) {
    const Attention *cross = &top->cross, *own = &top->own;
    long positions = top->feed.positions, dim = top->feed.dim, units = top->feed.units, starts = block->starts;
    long own_size = top_scratch(block, own), cross_size = top_scratch(block, cross), feed_size = starts * (units + dim);
    long most = own_size > cross_size ? own_size : cross_size;
    float *scratch = malloc((2 * starts * dim + (most > feed_size ? most : feed_size)) * sizeof *scratch);
    int *open = malloc((units + 1) * sizeof *open);
    if (!scratch || !open) {
        free(scratch), free(open);
        return 1;
    }
    float *into = scratch, *found = into + starts * dim, *rest = found + starts * dim;
    for (long row = block->row; row < block->row + block->rows; row++) {
        for (long start = 0; start < starts; start++) {
            long at = row * positions + block->places[start];
            float *one = into + start * dim;
            memcpy(one, top->cotangents + at * dim, dim * sizeof *one);
            if (top->norm.inputs) unnorm(&top->norm, at, 1, dim, one);
            feed_at(&top->feed, at, 1, one, rest, open);
            if (!cross->norm_first) unnorm(&cross->norm, at, 1, dim, one);
        }
        attend_top(block, cross, row, 0, into, memory, found, rest);
        memory += cross->keys * starts * dim;
        if (top->alone) continue;
        for (long start = 0; start < starts; start++) {
            long at = row * positions + block->places[start];
            if (cross->norm_first) unnorm(&cross->norm, at, 1, dim, found + start * dim);
            add_to(dim, found + start * dim, into + start * dim);
            if (!own->norm_first) unnorm(&own->norm, at, 1, dim, into + start * dim);
        }
        attend_top(block, own, row, 1, into, grad, found, rest);
        for (long start = 0; start < starts; start++) {
            long place = block->places[start];
            float *one = grad + start * dim;
            add_to(dim, found + start * dim, one + place * starts * dim);
            for (long key = 0; own->norm_first && key <= place; key++)
                unnorm(&own->norm, row * positions + key, 1, dim, one + key * starts * dim);
            add_to(dim, into + start * dim, one + place * starts * dim);
        }
        grad += positions * starts * dim;
    }
    free(scratch), free(open);
    return 0;
}

/* values [row][start][source] = sum over positions and dim of grad [row][position][start][dim] * along, which is
   [row][position][source][dim]; there are as many positions as sources */
void dot_all(const Block *block, long positions, long dim, const float *grad, const float *along, float *values) {
    long starts = block->starts, sources = positions;
    for (long row = 0; row < block->rows; row++)
        dots(starts, sources, positions, dim, grad + row * positions * starts * dim, dim, starts * dim,
             along + row * positions * sources * dim, dim, sources * dim, NULL, values + row * starts * sources,
             sources);
}

/* values [row][start][position] = grad [row][position][start][dim] * along [row][position][dim] */
void dot_each(const Block *block, long positions, long dim, const float *grad, const float *along, float *values) {
    long starts = block->starts;
    for (long row = 0; row < block->rows; row++, values += starts * positions)
        for (long position = 0; position < positions; position++, grad += starts * dim, along += dim)
            dots(starts, 1, 1, dim, grad, dim, 0, along, dim, 0, NULL, values + position, positions);
}

/* One row of changes(): moved is [source][3 * dim], mixed [position][dim], mixture [position * source][dim]. */
static void change_row(const Lowest *layer, long row, const float *moved, float *mixed, float *scores, float *turned,
                       float *mixture) {
    long count = layer->positions, dim = layer->dim, heads = layer->heads, size = dim / heads, width = padded(count);
    float *by_query = scores + count * width;
    for (long head = 0; head < heads; head++) {
        long at = (row * heads + head) * count;
        const float *weights = layer->weights + at * count, *value = layer->value + at * size;
        const float *query = layer->query + at * size, *key = layer->key + at * size;
        const float *moved_query = moved + head * size, *moved_key = moved_query + dim, *moved_value = moved_key + dim;
        turn(moved_key, count, 3 * dim, size, width, turned);
        times_rows(count, width, size, query, size, 1, turned, width, scores, width, 0);
        turn(key, count, size, size, width, turned);
        times_rows(count, width, size, moved_query, 3 * dim, 1, turned, width, by_query, width, 0);
        times_rows(count, size, count, weights, count, 1, value, size, mixed, size, 0);
        for (long position = 0; position < count; position++) {
            const float *shares = weights + position * count, *mean = mixed + position * size;
            float *out = mixture + position * count * dim + head * size, sum = 0;
            for (long source = 0; source < count; source++) {
                float share = shares[source], shift = share * scores[position * width + source];
                for (long k = 0; k < size; k += LANES)
                    *(lane *)(out + source * dim + k) = *(const lane *)(moved_value + source * 3 * dim + k) * share
                        + (*(const lane *)(value + source * size + k) - *(const lane *)(mean + k)) * shift;
            }
            float *own = out + position * dim;  /* the position's own query moves too */
            for (long source = 0; source < count; source++) {
                float shift = shares[source] * by_query[position * width + source];
                sum += shift;
                for (long k = 0; k < size; k += LANES)
                    *(lane *)(own + k) += *(const lane *)(value + source * size + k) * shift;
            }
            for (long k = 0; k < size; k += LANES) *(lane *)(own + k) -= *(const lane *)(mean + k) * sum;
        }
    }
}

/* found [row][position][source][dim]: how the sum of states and the output of self-attention changes at every
   position if the states at one source position, and no others, move along [row][source][dim]; read is what reaches
   the branch of that. */
int changes(const Block *block, const Lowest *layer, const float *along, const float *read, float *found) {
    long count = layer->positions, dim = layer->dim, width = padded(count), size = dim / layer->heads;
    long parts[] = {3 * count * dim, count * size, 2 * count * width, size * width, count * count * dim};
    float *moved = malloc((parts[0] + parts[1] + parts[2] + parts[3] + parts[4]) * sizeof *moved);
    if (!moved) return 1;
    float *mixed = moved + parts[0], *scores = mixed + parts[1], *turned = scores + parts[2];
    float *mixture = turned + parts[3];
    for (long row = 0; row < block->rows; row++, along += count * dim, read += count * dim, found += parts[4]) {
        times_packed(count, 3 * dim, dim, read, dim, layer->project, moved, 3 * dim, 0);
        change_row(layer, block->row + row, moved, mixed, scores, turned, mixture);
        times_packed(count * count, dim, dim, mixture, dim, layer->output, found, dim, 0);
        for (long source = 0; source < count; source++)
            add_to(dim, along + source * dim, found + source * (count + 1) * dim);
    }
    free(moved);
    return 0;
}
