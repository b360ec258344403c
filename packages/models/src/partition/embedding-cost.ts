/**
 * The cost of an embedding in layers. Lookups, their sum and dropout, and the sum of gradients by token are
 * no matmuls, but some ten passes over S B H numbers: 40 H bytes per token, where a layer takes 72 H^2
 * operations forward and backward. Where a byte takes as long as 16 operations (a core of a CPU), that is 9 /
 * H of a layer, 0.01 for GPT-2. `npm run bench` measured between -0.03 and 0.04 for 768 to 2048, which is not
 * distinguishable from zero, but enough to break ties in favour of stage 0.
 */
export const embeddingCost = 0.01;
