/**
 * The work of an embedding in layers. Lookups, their sum and dropout, and the sum of gradients by token do no
 * products, but some ten passes over S B H numbers: 40 H bytes a token beside the 72 H^2 operations that a
 * layer does forward and backward. Where a byte takes as long as 16 operations (a core of a CPU), that is
 * 9 / H of a layer, 0.01 of GPT-2's. `npm run bench` measured between -0.03 and 0.04 for 768 to 2048: nothing
 * that it can tell from nothing, but enough to break ties in favour of stage 0.
 */
export const embeddingWork = 0.01;
