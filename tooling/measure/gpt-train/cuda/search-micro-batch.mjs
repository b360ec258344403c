/**
 * Finds the micro-batch size with the most tokens per second. Measures candidates in ascending order, until
 * the memory is full or two consecutive candidates are slower than the best by more than 2 % (a smaller
 * difference may be noise). `measure(microBatch)` returns a result with `tokens_per_s`, `{ out_of_memory:
 * true }`, or `{ error }`. An error also ends the search, because later candidates are larger.
 * @returns all results in order, and the best result, which is undefined if not even the first candidate fits
 */
export function searchMicroBatch({ candidates, measure }) {
  const results = [];
  let best;
  let numSlower = 0;
  for (const microBatch of candidates) {
    const result = { micro_batch: microBatch, ...measure(microBatch) };
    results.push(result);
    if (!isMeasured(result)) break;
    if (best === undefined || result.tokens_per_s > best.tokens_per_s) best = result;
    numSlower = result.tokens_per_s < 0.98 * best.tokens_per_s ? numSlower + 1 : 0;
    if (numSlower === 2) break;
  }
  return { results, best };
}

const isMeasured = ({ out_of_memory, error }) => !out_of_memory && error === undefined;

/**
 * Returns the largest micro-batch size with which both programs ran, with both results; undefined if there is
 * none.
 */
export function largestCommon(ours, theirs) {
  const fits = theirs.results.filter(isMeasured);
  return ours.results
    .filter(isMeasured)
    .map((our) => ({ ours: our, theirs: fits.find(({ micro_batch }) => micro_batch === our.micro_batch) }))
    .filter((pair) => pair.theirs !== undefined)
    .at(-1);
}
