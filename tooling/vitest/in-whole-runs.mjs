const isFast = () => process.env.MTL_TEST_SUITES === 'fast';

/**
 * Returns `cases`, the cases of a parametrised test; no cases in `npm test` without --all. For a single test
 * or a describe, use the tag `whole`.
 *
 * @template {readonly unknown[]} T
 * @param {T} cases
 * @returns {T | readonly []}
 */
export const inWholeRuns = (...cases) => (isFast() ? [] : cases);

/**
 * Returns how many cases a test runs: `fast` in `npm test` without --all, `whole` with --all or when vitest
 * runs alone.
 *
 * @param {{ readonly whole: number, readonly fast: number }} numbers
 * @returns {number}
 */
export const numberInRuns = ({ whole, fast }) => (isFast() ? fast : whole);
